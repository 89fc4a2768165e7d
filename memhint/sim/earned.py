"""`memhint.planner.earned_ratio` for many hosts at once: the same days, hours and shares, and so the same cap."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from memhint.planner.earned_ratio import ALL, DAY, FULL, HOUR, KEPT, NEEDED, Day, Earned
from memhint.sim.fleet import Bools, Floats, Ints

_NEVER = np.iinfo(np.int64).min


@dataclass(frozen=True, slots=True)
class Looks:
    """`memhint.planner.earned_ratio.Look` of every host."""

    use: Floats
    assigned: Floats
    base: int
    failed: Bools


class EarnedOfHosts:
    """What the last days showed of every host."""

    def __init__(self, hosts: int, before: Sequence[Earned] = ()) -> None:
        """:param before: what hosts begin with, by turns"""
        self._hour = np.full(hosts, _NEVER)  # the newest that was counted
        self._days: dict[int, tuple[Ints, Ints]] = {}  # hours and worst by number, oldest first
        for number in sorted({day.number for one in before for day in one.days}):
            self._begin(number)
        for host in range(hosts) if before else ():
            mine = before[host % len(before)]
            self._hour[host] = _NEVER if mine.hour is None else mine.hour
            for day in mine.days:
                hours, worst = self._days[day.number]
                hours[host], worst[host] = day.hours, day.worst

    def _begin(self, number: int) -> None:
        self._days[number] = (np.zeros_like(self._hour), np.zeros_like(self._hour))

    def add(self, looks: Looks, now: float) -> None:
        """One more look at every host."""
        number, hour = math.floor(now / DAY), math.floor(now / HOUR)
        self._days = {day: found for day, found in self._days.items() if day > number - KEPT}
        if number not in self._days:
            self._begin(number)
        hours, worst = self._days[number]
        full = (looks.assigned > 0) & (100 * looks.assigned >= FULL * looks.base)
        use, assigned = looks.use.astype(np.int64), np.maximum(1, looks.assigned.astype(np.int64))
        share = np.where(looks.failed, ALL, np.where(full, np.minimum(ALL, -(-ALL * use // assigned)), 0))
        np.maximum(worst, share, out=worst)
        counts = full & (self._hour != hour)
        hours += counts
        self._hour[counts] = hour

    def forget(self, hosts: Bools) -> None:
        """Nothing was seen of these hosts yet."""
        self._hour[hosts] = _NEVER
        for hours, worst in self._days.values():
            hours[hosts] = worst[hosts] = 0

    def hours(self) -> Ints:
        """How many hours each host was full."""
        return sum((hours for hours, _ in self._days.values()), np.zeros_like(self._hour))

    def share(self) -> Ints:
        """Thousandths that each host's VMs used together at their worst."""
        if not self._days:
            return np.full_like(self._hour, ALL)
        found: Ints = np.max([worst for _, worst in self._days.values()], axis=0)
        return found

    def suffices(self) -> Bools:
        """Which hosts have earned something."""
        found: Bools = (self.hours() >= NEEDED) & (self.share() < ALL)
        return found

    def records(self) -> tuple[Earned, ...]:
        """What the planner of each host would remember."""
        return tuple(
            Earned(
                tuple(Day(number, int(hours[host]), int(worst[host])) for number, (hours, worst) in self._days.items()),
                None if self._hour[host] == _NEVER else int(self._hour[host]),
            )
            for host in range(len(self._hour))
        )


def before(earned: Sequence[Earned]) -> tuple[Earned, ...]:
    """The same past on a clock that begins now."""
    newest = max((day.number for one in earned for day in one.days), default=0)
    return tuple(Earned(tuple(replace(day, number=day.number - newest - 1) for day in one.days)) for one in earned)


def caps(suffices: Bools, share: Ints, room: Floats, base: int, least: float, most: float) -> Floats:
    """`memhint.planner.earned_ratio.cap` of every host."""
    if most <= least or base <= 0:
        return np.full(len(share), least)
    # A product has up to 60 bits, more than a float's: in whole numbers.
    held = room.astype(np.int64) * (100 * ALL) // (np.maximum(1, share) * base)
    return np.where(suffices, np.maximum(least, np.minimum(most, held / 100)), least)
