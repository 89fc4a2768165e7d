"""How much of a VM's memory is in use: what was not touched for how long, and what finding out cost."""

from __future__ import annotations

from dataclasses import dataclass

from memhint.objects.ranges import Moment, Percent, Seconds, Size
from memhint.objects.words import Word

AGES = (10, 60, 600, 3600)  # seconds: 10 s, 1 min, 10 min, 1 h


class ActiveSource(Word):
    """How it was found out."""

    DAMON = "damon"  # the kernel samples pages, and keeps how long what it sampled was not touched
    REFERENCED = "referenced"  # accessed bits of every page, cleared by memhint and read back


@dataclass(frozen=True, slots=True)
class Idle:
    """Resident memory that was not touched for ``age`` seconds or longer."""

    age: Seconds
    bytes: Size
    at: Moment  # unix seconds of the reading


@dataclass(frozen=True, slots=True)
class ActiveMemory:
    """One QEMU process's guest memory by when it was last touched. Bytes.

    Only ages that were observed in full are there. ``error`` is that of the shortest age by sampling: it is this exact
    in 95 of 100 cases; 0 where every page was looked at. Of longer ages a sampler finds too little rather than too
    much: a range that holds one page in use counts as in use.
    """

    at: Moment  # unix seconds of the newest reading
    source: ActiveSource
    resident: Size  # guest memory that the host holds, at that reading
    idle: tuple[Idle, ...]  # by age, the shortest first
    cpu_percent: Percent  # of one core, for this VM
    error: Size

    @property
    def active(self) -> int | None:
        """What was touched within the shortest age, as of its reading; None while nothing was observed in full."""
        return max(0, self.resident - self.idle[0].bytes) if self.idle else None

    def idle_for(self, age: float) -> int | None:
        """What was not touched for so many seconds; None where that was not observed."""
        return next((one.bytes for one in self.idle if one.age == age), None)


def descending(idle: tuple[Idle, ...]) -> tuple[Idle, ...]:
    """The same, by age, where nothing is idle for long that is not idle for a shorter time.

    Readings of different moments can cross; the smaller one is kept, for idle memory must not be found too much.
    """
    found: list[Idle] = []
    for one in sorted(idle, key=lambda idle: idle.age):
        most = min(one.bytes, found[-1].bytes) if found else one.bytes
        found.append(Idle(one.age, most, one.at))
    return tuple(found)
