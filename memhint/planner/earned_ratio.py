"""The earned cap: what a host's VMs used together in their worst hour, and how many more of their like would have fit.

Each hour in which VMs were given most of a host is tried again on paper: had there been so many times as many VMs like
these, would what they used have been more than the host has? The share of their memory that they used together, at its
most, answers it for every ratio at once. ``max_ratio`` may rise to the largest ratio that would have held in all hours.

Evidence (Vovk, Gammerman, Shafer, "Algorithmic learning in a random world", 2005): of n + 1 exchangeable hours the
newest is the worst with a probability of 1 / (n + 1). For less than α it takes n ≥ ⌈1 / α⌉ − 1 of them.

Assumptions, and what breaks them:

- Hours are exchangeable. By day and week they are not: so none counts before there are four weeks of them, and the
  worst stands for all. Read by days, the next one is worse than 28 before it with 1 / 29. What comes on top of the
  worst is what the storm reserve is for.
- A storm draws other VMs each time, and a month has few of them. So the worst hour is not all that counts: half of the
  VMs must be able to come at once to what each may need by itself, which the whole fleet's past tells.
- VMs that come are like those that were here. A host whose VMs are replaced by others learns of it as they use more.
- VMs do not wait for each other. Who keeps VMs idle for a month and wakes all of them is the storm that no past tells.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from memhint.objects.plan import Demand, DemandReason, Evidence
from memhint.planner.storm import storm_reserve

HOUR, DAY = 3600.0, 86400.0
KEPT = 56  # days that are remembered
NEEDED = 28 * 24  # hours of them in which the host must have been seen full
FULL = 75  # percent of pool less reserve that VMs must have been given, or an hour says nothing of a full host
ALL = 1000  # shares are in thousandths, rounded up
HALF = 50  # percent of the VMs that may come at once to what each may need by itself
RULE = 2  # by which hours are judged: 2 counts zero pages that KSM does not. Those of another rule say nothing


@dataclass(frozen=True, slots=True)
class UsageSample:
    """What VMs with a forecast use and were given, what the host has for VMs, and whether it ran short. Bytes."""

    use: int
    assigned: int
    base: int  # pool less reserve
    failed: bool = False


@dataclass(frozen=True, slots=True)
class Day:
    """One day of the planner's clock: hours in which the host was full, and the most that VMs used together."""

    number: int
    hours: int
    worst: int  # thousandths of what they were given


@dataclass(frozen=True, slots=True)
class Earned:
    """What the last `KEPT` days showed."""

    days: tuple[Day, ...] = ()
    hour: int | None = None  # the newest that was counted
    rule: int = RULE


def next_earned(earned: Earned, look: UsageSample, now: float) -> Earned:
    """What is known after one more look. Whoever runs short has earned nothing until that day is forgotten."""
    number, hour = math.floor(now / DAY), math.floor(now / HOUR)
    if earned.rule != RULE or (earned.days and earned.days[-1].number > number):
        earned = Earned()  # judged otherwise, or by another clock
    days = [one for one in earned.days if one.number > number - KEPT]
    if not days or days[-1].number != number:
        days.append(Day(number, 0, 0))
    full = look.assigned > 0 and 100 * look.assigned >= FULL * look.base
    share = ALL if look.failed else share_of(look.use, look.assigned) if full else 0
    counts = full and hour != earned.hour
    today = days[-1]
    days[-1] = replace(today, hours=today.hours + counts, worst=max(today.worst, share))
    return Earned(tuple(days), hour if counts else earned.hour)


def on_another_clock(earned: Earned, now: float, away: float) -> Earned:
    """The same days on a clock on which it is ``now``, ``away`` seconds after the newest of them ended.

    The newest is yesterday at the latest, and the hour under way counts already: no boot makes an hour or a day more.
    """
    if not earned.days:
        return earned
    by = math.floor(now / DAY) - 1 - math.floor(away / DAY) - earned.days[-1].number
    days = tuple(replace(one, number=one.number + by) for one in earned.days)
    return replace(earned, days=days, hour=math.floor(now / HOUR))


def evidence(earned: Earned) -> Evidence:
    """What the hours say."""
    if earned.rule != RULE:
        return Evidence(0, ALL)
    return Evidence(sum(one.hours for one in earned.days), max((one.worst for one in earned.days), default=ALL))


def suffices(found: Evidence) -> bool:
    """Whether there are hours enough, and the host ran short in none."""
    return found.hours >= NEEDED and found.share < ALL


def share_of(use: int, assigned: int) -> int:
    """Thousandths of what VMs were given, rounded up."""
    return min(ALL, -(-ALL * use // assigned))


def cap(found: Evidence, room: int, base: int, least: float, most: float) -> float:
    """The ratio that may be promised at most.

    :param room: bytes that VMs may use together
    :param base: bytes of which the ratio is a multiple
    :param least: the ratio that takes no evidence
    :param most: the operator's cap
    """
    if not suffices(found) or most <= least or base <= 0:
        return least
    # In whole hundredths, as a ratio is promised: r × share × base ≤ room.
    held = room * 100 * ALL // (max(1, found.share) * base)
    return max(least, min(most, held / 100))


def together(demands: Iterable[Demand], share: int) -> tuple[Demand, ...]:
    """Every VM counts with what its like used together at their worst, and no less than its minimum.

    Who counts in full goes on to, and who is new counts with no less than before: nothing is known of those.
    """
    return tuple(
        replace(one, demand=max(one.minimum if is_settled(one) else one.demand, counted(one.assigned, share)))
        for one in demands
    )


def counted(assigned: int, share: int) -> int:
    """What a VM of ``assigned`` bytes counts with."""
    return min(assigned, -(-assigned * share // ALL))


def at_present(demands: Iterable[Demand]) -> tuple[Demand, ...]:
    """Every VM counts with what it uses now, and no less than its minimum; with no less than before if it is new."""
    return tuple(
        replace(one, demand=max(one.minimum, one.footprint) if is_settled(one) else one.demand) for one in demands
    )


def half_at_once(demands: Sequence[Demand]) -> int:
    """Bytes that VMs want where half of them come at once to what each may need by itself, the others as they are.

    A host's own worst storm is a lottery of which of its VMs were drawn, and of few draws.
    """
    present = at_present(demands)
    distances = [one.demand - now.demand for one, now in zip(demands, present, strict=True)]
    return sum(now.demand for now in present) + storm_reserve(distances, HALF)


def is_settled(demand: Demand) -> bool:
    """Whether a VM counts with less than all of its memory, by what was seen of it."""
    return demand.forecast is not None and demand.reason is not DemandReason.NEW
