"""Where VMs would fit, host by host: the outcome of a dry run over what is known of the hosts."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Unfit(StrEnum):
    """Why a host takes no VM."""

    UNKNOWN = "unknown"  # no agent of this name has reported
    SILENT = "silent"
    STALE = "stale"  # what it last reported is too old to be relied on
    PRESSURE = "pressure"  # it admits nothing now
    HEADROOM = "headroom"  # not as much can be promised


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a host takes no VM: a word for programs, and a sentence for people."""

    reason: Unfit
    detail: str


@dataclass(frozen=True, slots=True)
class HostPlacement:
    """One host's part. Bytes; slots are VMs of the asked size, by what is measured and by what is assigned.

    ``headroom`` is None where it is unknown.
    """

    name: str
    slots: int
    nominal_slots: int
    placed: int
    headroom: int | None
    refusal: Refusal | None


@dataclass(frozen=True, slots=True)
class Placement:
    """So many of the asked VMs were placed; ``nominal`` counts those that assigned memory alone would let in."""

    placed: int
    nominal: int
    hosts: tuple[HostPlacement, ...]
