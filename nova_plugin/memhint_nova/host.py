"""One host as the admin API tells of it: parsed strictly, in the terms that a placement is judged by."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

STALE_PERIODS = 3  # older than this many periods, a report counts for nothing
MIB = 1 << 20

FIELDS = (
    "name",
    "provider",
    "state",
    "epoch",
    "sequence",
    "at",
    "period",
    "assigned",
    "headroom",
    "admitting",
    "detail",
    "psi",
    "domains",
)
"""What is asked for of each host."""

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_MOST = 1 << 53  # bytes; more is no memory, and not exact in every JSON reader
_LONGEST = 3600.0  # seconds between two reports


class BadHost(ValueError):
    """A host that is not described as it should be; the text says what of it."""


@dataclass(frozen=True, slots=True)
class Host:
    """What one report said, and until when it may be used."""

    name: str
    provider: str | None  # the compute node's UUID, lower case; None where the agent does not know it
    expires: float  # on this process's monotonic clock
    period: float  # seconds between two of its reports
    headroom: float  # MiB that may be promised
    assigned: float  # MiB of all VMs, with the overhead of each and no more
    domains: int
    admitting: bool
    detail: str
    psi: float | None  # percent
    mark: tuple[str, int]  # epoch and sequence: which report this is


def host(told: Mapping[str, Any], wall: float, monotonic: float) -> Host:
    """Read one element of ``hosts``, received at these times (unix seconds, and this process's clock).

    A report is of use for three of its periods from when it was made. One that was made in the future, by a clock
    that is ahead, is of use for three periods from now; one that the server calls stale is of none.

    :raises BadHost: where a field is missing or not what it should be
    """
    period = _number(told, "period", 0.001, _LONGEST)
    age = max(0.0, wall - _number(told, "at", 0.0, 1e12))
    fresh = _text(told, "state", 16) == "fresh"
    provider = told.get("provider")
    if provider is not None:
        provider = _text(told, "provider", 36).lower()
        if not _UUID.fullmatch(provider):
            raise BadHost("provider is no UUID")
    admitting = told.get("admitting")
    if not isinstance(admitting, bool):
        raise BadHost("admitting is neither true nor false")
    name = _text(told, "name", 255)
    if not name.isprintable():
        raise BadHost("name is not printable")
    return Host(
        name=name,
        provider=provider,
        expires=monotonic + STALE_PERIODS * period - age if fresh else -math.inf,
        period=period,
        headroom=_whole(told, "headroom", _MOST) / MIB,
        assigned=_whole(told, "assigned", _MOST) / MIB,
        domains=_whole(told, "domains", 1 << 20),
        admitting=admitting,
        detail=_shown(_text(told, "detail", 4096, least=0)),
        psi=None if told.get("psi") is None else _number(told, "psi", 0.0, 100.0),
        mark=(_text(told, "epoch", 64), _whole(told, "sequence", _MOST)),
    )


def _text(told: Mapping[str, Any], name: str, most: int, least: int = 1) -> str:
    value = told.get(name)
    if not isinstance(value, str) or not least <= len(value) <= most:
        raise BadHost(f"{name} is no text of {least} to {most} letters")
    return value


def _shown(text: str) -> str:
    """Fit for one line of a log."""
    return text[:200] if text.isprintable() else "".join(one if one.isprintable() else "?" for one in text[:200])


def _whole(told: Mapping[str, Any], name: str, most: int) -> int:
    value = told.get(name)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= most:
        raise BadHost(f"{name} is no whole number from 0 to {most}")
    return value


def _number(told: Mapping[str, Any], name: str, least: float, most: float) -> float:
    value = told.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
        raise BadHost(f"{name} is no number from {least:g} to {most:g}")
    return float(value)
