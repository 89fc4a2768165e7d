"""The capacity formula: what may be promised to new VMs, and which rule bounds it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from memhint.objects.plan import Bound, Capacity, Demand, DemandReason, Evidence
from memhint.planner.earned_ratio import at_present, cap, half_at_once, suffices, together
from memhint.planner.settings import PlannerSettings
from memhint.planner.storm import storm_reserve


@dataclass(frozen=True, slots=True)
class Sums:
    """The inputs of the formula, in bytes."""

    pool: int  # memory that 4 KiB pages and their huge pages can have: total less the hugetlb pools
    available: int
    resident: int  # ΣRSS of the VMs in the pool
    ksm_saving: int  # what unmerging would bring back and no VM's footprint counts already
    other: int  # the peak of other work
    swap: int  # disk swap that could hold VMs' memory: what is free of it, and what holds some now
    fault_in_rate: float  # bytes per second, a high quantile
    node: int | None = None  # the room of the tightest NUMA node; None where no VM is bound to one


def spare(demands: Sequence[Demand], fault_in_rate: float, settings: PlannerSettings) -> int:
    """What must stay free for demand that the forecast missed, in bytes.

    At least the largest VM's own distance to its full size (or that of a whole anti-affinity group, whose VMs grow at
    the same time), what the host's VMs faulted in at their worst for as long as it takes to see it and reclaim, or what
    an unannounced storm brings back of all VMs; never more than all VMs' distance.
    """
    distances = [demand.assigned - demand.demand for demand in demands]
    groups: dict[str, int] = {}
    if settings.spare_for_group:
        for demand, distance in zip(demands, distances, strict=True):
            if demand.group is not None:
                groups[demand.group] = groups.get(demand.group, 0) + distance
    surge = int(fault_in_rate * (settings.period + settings.lever_latency))
    storm = storm_reserve(distances, settings.storm_percent)
    return min(sum(distances), max([surge, storm, *distances, *groups.values()]))


def capacity(
    sums: Sums, demands: Sequence[Demand], settings: PlannerSettings, found: Evidence | None = None
) -> Capacity:
    """The formula without its memory: neither rate limit nor pressure are applied yet.

    model = pool − reserve − other − want − spare, now = available − KSM saving − reserve − (want − ΣRSS) − spare,
    back = pool − reserve − other + swap + allow_unbacked − ΣA, ceiling = max_ratio × (pool − reserve) − ΣA, and the
    room of the tightest NUMA node that VMs are bound to; the headroom is the least of them, and never below 0.

    Want and spare are what each VM may need by itself, up to ``max_ratio``. Beyond it they are what VMs used together
    at their worst, where evidence suffices: each of the two holds by itself, and the one that leaves more is promised.

    :param found: what this host's past hours say
    """
    inside = [demand for demand in demands if demand.reason is not DemandReason.OUTSIDE]
    want = sum(demand.demand for demand in inside)
    kept = spare(inside, sums.fault_in_rate, settings)
    alone = replace(_capacity(sums, inside, want, kept, settings, settings.max_ratio), evidence=found)
    if found is None or settings.earned_max_ratio <= settings.max_ratio or not suffices(found):
        return alone
    base = sums.pool - settings.reserve_of(sums.pool)
    most = cap(found, base - sums.other, base, settings.max_ratio, settings.earned_max_ratio)
    want, kept = _together(inside, found.share, sums.fault_in_rate, settings)
    joint = replace(_capacity(sums, inside, want, kept, settings, most), evidence=found, together=True)
    return joint if joint.headroom > alone.headroom else alone


def _together(inside: Sequence[Demand], share: int, fault_in_rate: float, settings: PlannerSettings) -> tuple[int, int]:
    """Want and spare of VMs that use together what they did at their worst, or what they use now: the larger.

    They are no less than what VMs want where half of them come at once to what each may need by itself.

    Each of the two comes with the reserve for its own distances. One's sum beside the other's reserve would keep twice
    what a VM uses beyond its share, and then a VM that comes to count in full makes room.
    """
    courses = (together(inside, share), at_present(inside))
    sums = [sum(one.demand for one in vms) for vms in courses]
    most = max(want + spare(vms, fault_in_rate, settings) for want, vms in zip(sums, courses, strict=True))
    return max(sums), max(most, half_at_once(inside)) - max(sums)


def _capacity(
    sums: Sums, inside: Sequence[Demand], want: int, kept: int, settings: PlannerSettings, most: float
) -> Capacity:
    reserve = settings.reserve_of(sums.pool)
    assigned = sum(demand.assigned for demand in inside)
    backing = sums.swap + settings.allow_unbacked
    model = sums.pool - reserve - sums.other - want - kept
    # Memory that is resident beyond what the VMs want may come back, but it is not free yet: it counts for nothing.
    now = sums.available - sums.ksm_saving - reserve - max(0, want - sums.resident) - kept
    back = sums.pool - reserve - sums.other + backing - assigned
    ceiling = int(most * max(0, sums.pool - reserve)) - assigned
    terms = [(model, Bound.MODEL), (now, Bound.NOW), (back, Bound.BACK), (ceiling, Bound.RATIO)]
    if sums.node is not None:
        terms.append((sums.node, Bound.NODE))
    least, bound = min(terms, key=lambda term: term[0])
    return Capacity(
        pool=sums.pool,
        reserve=reserve,
        other=sums.other,
        assigned=assigned,
        footprint=sum(demand.footprint for demand in inside),
        resident=sums.resident,
        want=want,
        spare=kept,
        backing=backing,
        model=model,
        now=now,
        back=back,
        headroom=max(0, least),
        bound=bound,
        node=sums.node,
        ceiling=ceiling,
        available=sums.available,
        ksm_saving=sums.ksm_saving,
        storm=settings.storm_percent,
        max_ratio=most,
    )
