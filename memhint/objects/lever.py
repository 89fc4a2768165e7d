"""What is wished of a lever, what is seen of it, and why they differ."""

from __future__ import annotations

from dataclasses import dataclass

from memhint.objects.verdict import Verdict
from memhint.objects.words import Word


class LeverName(Word):
    """The levers: ways to give memory back, or to spare it."""

    REPORTING = "reporting"
    DEDUP = "dedup"
    CACHE = "cache"
    RECYCLER = "recycler"
    KHUGEPAGED = "khugepaged"  # the host's kernel, kept from filling again what was taken
    THP = "thp"  # huge pages, made again of what was split
    TIERING = "tiering"  # memory moved between NUMA nodes by how it is used
    BALLOON = "balloon"
    SWAP_OUT = "swap_out"
    QOS = "qos"
    MIGRATION = "migration"
    LADDER = "ladder"  # the pressure ladder as a whole, of the host


class Observed(Word):
    """The lever as it is seen now. ``unknown`` is a fact of its own, and ``unsupported`` is not ``off``."""

    ON = "on"
    OFF = "off"
    UNKNOWN = "unknown"
    UNSUPPORTED = "unsupported"


@dataclass(frozen=True, slots=True)
class LeverState:
    """One lever of one VM (or of the host, with its own subject)."""

    lever: LeverName
    subject: str
    desired: str
    observed: Observed
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class Action:
    """One pull that a plan asks for."""

    lever: LeverName
    subject: str
    desired: str
    why: str
