"""What storms a host has had: the share of its VMs that came back at once, in the worst hour of four weeks.

Every half hour it is noted what each VM counts with. What VMs use beyond that within the hour after is what the
forecast missed: where it is more than the reserve for storms would have been, the reserve should have been for more.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from memhint.planner.storm import of_sums
from memhint.planner.window import Window

HOUR = 3600.0
KEPT = 28 * 86400.0  # seconds: a storm of each week and each month comes again within them
TRIFLE = 0.01  # parts of the pool: what VMs claim below that is no storm, whatever share of little it is


@dataclass(frozen=True, slots=True)
class Counted:
    """One VM: bytes that it was given, counts with and uses."""

    process: str  # QEMU's
    assigned: int
    demand: int
    use: int


@dataclass(frozen=True, slots=True)
class Hour:
    """What VMs counted with when an hour began, by QEMU process, and what they then left of their memory. Bytes."""

    begin: float
    demands: Mapping[str, int]
    total: int  # Σ(A − D)
    squares: float  # Σ(A − D)²
    largest: int


@dataclass(frozen=True, slots=True)
class Storms:
    """The worst of four weeks, percent of VMs, and the hours under way: no more than two of them overlap."""

    worst: Window = field(default_factory=lambda: Window(KEPT))
    hours: tuple[Hour, ...] = ()

    @property
    def percent(self) -> int:
        """Percent of the VMs that came back at once in the worst hour."""
        return int(self.worst.peak())


def next_storms(storms: Storms, vms: Iterable[Counted], pool: int, now: float) -> Storms:
    """What is known after one more look at the VMs that have a forecast."""
    seen = tuple(vms)
    hours = tuple(one for one in storms.hours if 0 <= now - one.begin <= HOUR)
    percent = max((_percent(one, seen, pool) for one in hours), default=0)
    if not hours or now - hours[-1].begin >= HOUR / 2:
        hours = (*hours[-1:], _begin(seen, now))
    return Storms(storms.worst.add(now, percent), hours)


def _begin(vms: tuple[Counted, ...], now: float) -> Hour:
    distances = [one.assigned - one.demand for one in vms]
    return Hour(
        now,
        {one.process: one.demand for one in vms},
        sum(distances),
        float(sum(one * one for one in distances)),
        max(distances, default=0),
    )


def _percent(hour: Hour, vms: tuple[Counted, ...], pool: int) -> int:
    """The least percentage of VMs for which the reserve would have sufficed; 0 where the largest VM's would have.

    What came back of one VM is not what another had free: it does not cancel out.
    """
    claimed = sum(max(0, one.use - hour.demands.get(one.process, one.use)) for one in vms)
    if claimed <= hour.largest or claimed < TRIFLE * pool:
        return 0
    squares = int(hour.squares)
    return min(100, bisect.bisect_left(range(101), claimed, key=lambda percent: of_sums(hour.total, squares, percent)))
