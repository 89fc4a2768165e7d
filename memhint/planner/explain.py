"""Where every byte of a headroom comes from, and of one VM's demand. Pure: made of what a report holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from memhint.objects.counted import counted
from memhint.objects.domain import DomainObservation
from memhint.objects.plan import Bound, Capacity, Demand, DemandReason
from memhint.planner.capacity import spare
from memhint.planner.earned_ratio import ALL, KEPT, NEEDED, at_present, half_at_once, suffices, together
from memhint.planner.settings import PlannerSettings
from memhint.planner.storm import learnt

FORMULA = (Bound.MODEL, Bound.NOW, Bound.BACK, Bound.RATIO, Bound.NODE)  # those that are terms of the formula


@dataclass(frozen=True, slots=True)
class Step:
    """One line of a sum: what is added or taken, and what it leaves. Bytes."""

    term: str
    amount: int
    left: int
    why: str


@dataclass(frozen=True, slots=True)
class Cost:
    """What one VM takes of its host's headroom, under the rule that bounds it now. Bytes."""

    counted: int  # D or A, as the rule counts
    spare: int  # by how much the host's spare is larger because of it
    given: int  # A − D: what others have because this VM does not use it


def terms(capacity: Capacity) -> dict[Bound, int]:
    """The terms of the formula that this capacity has."""
    found = {
        Bound.MODEL: capacity.model,
        Bound.NOW: capacity.now,
        Bound.BACK: capacity.back,
        Bound.RATIO: capacity.ceiling,
        Bound.NODE: capacity.node,
    }
    return {bound: value for bound, value in found.items() if value is not None}


def tightest_term(capacity: Capacity) -> Bound:
    """The term of the formula that bounds, whatever bounds the promise after it."""
    if capacity.bound in FORMULA:
        return capacity.bound
    found = terms(capacity)
    return min(found, key=lambda bound: found[bound])


def capacity_steps(capacity: Capacity) -> tuple[Step, ...]:
    """From what there is to the headroom that is promised: the amounts add up to it."""
    bound = tightest_term(capacity)
    lines = _LINES[bound](capacity)
    least = sum(amount for _, amount, _ in lines)
    if least < 0:
        lines.append(("below nothing", -least, "a headroom is never less than 0"))
    held = capacity.headroom - max(0, least)
    if held:
        name, why = _HELD.get(capacity.bound, ("hysteresis", "rises only where there is more by more than a trifle"))
        lines.append((name, held, why))
    steps, left = [], 0
    for term, amount, why in lines:
        left += amount
        steps.append(Step(term, amount, left, why))
    return tuple(steps)


def demand_steps(demand: Demand, domain: DomainObservation) -> tuple[Step, ...]:
    """From a VM's footprint to what it counts with: the amounts add up to D."""
    process = domain.process
    lines: list[tuple[str, int, str]] = []
    if process is not None:
        lines.append(("resident", process.rss, "RSS of its QEMU"))
        lines.append(("swapped", process.swap, "it may come back at any time"))
        lines.append(("zero pages", process.ksm_zero or 0, "replaced by KSM; one write each brings them back"))
        if process.zero_other:
            why = "replaced as the kernel split huge pages; one write each brings them back"
            lines.append(("other zero pages", process.zero_other, why))
    if demand.reason is DemandReason.OUTSIDE:
        lines.append(("outside", -demand.footprint, demand.detail))
    elif demand.forecast is None:
        term = "up to all of it" if demand.demand == demand.assigned else "forecast"
        lines.append((term, demand.demand - demand.footprint, f"{demand.reason}: {demand.detail}"))
    else:
        lines.append(("forecast", demand.forecast - demand.footprint, "what it was seen to need before"))
        grown = max(demand.forecast, demand.growth)
        why = (
            demand.detail if demand.reason is DemandReason.GROWTH else "what VMs of the fleet that were like it came to"
        )
        lines.append(("growth", grown - demand.forecast, why))
        floor = max(grown, demand.minimum)
        lines.append(("minimum", floor - grown, "what policy keeps for it (min_mb)"))
        lines.append(("new", demand.demand - floor, "counts with more until it was watched for long enough"))
    steps, left = [], 0
    for term, amount, why in lines:
        left += amount
        if amount or term in ("resident", "forecast"):
            steps.append(Step(term, amount, left, why))
    return tuple(steps)


def spare_words(capacity: Capacity, demands: Sequence[Demand], settings: PlannerSettings) -> str:
    """What the spare is kept for: a VM, as its UUID in braces (to be replaced by its name), or something else."""
    settings = learnt(settings, capacity.storm)
    inside = _counted(demands, capacity, settings)
    kept = capacity.want + capacity.spare - _wanted(inside)
    if not kept:
        return "no VM counts with less than all of its memory"
    if _half_counts(capacity, demands):
        return "half of the VMs coming at once to what each may need by itself"
    if kept > spare(inside, 0.0, settings):
        return "what VMs faulted in at their worst, for as long as it takes to act"
    if kept > spare(inside, 0.0, replace(settings, storm_percent=0)):
        return f"{settings.storm_percent} % of the VMs coming back to their full size at once"
    largest = max(inside, key=lambda one: one.assigned - one.demand)
    if largest.assigned - largest.demand == kept:
        return f"{{{largest.uuid}}} coming back to its full size"
    return "all VMs of the largest anti-affinity group coming back to their full size"


def cost_of(demand: Demand, capacity: Capacity, demands: Sequence[Demand], settings: PlannerSettings) -> Cost:
    """What this VM takes of the headroom."""
    settings = learnt(settings, capacity.storm)
    if demand.reason is DemandReason.OUTSIDE:
        return Cost(0, 0, 0)
    bound = tightest_term(capacity)
    if _half_counts(capacity, demands):
        others = [one for one in demands if one.uuid != demand.uuid and one.reason is not DemandReason.OUTSIDE]
        (present,) = at_present([demand])
        taken = capacity.want + capacity.spare - half_at_once(others)
        return Cost(present.demand, max(0, taken - present.demand), demand.assigned - present.demand)
    inside = _counted(demands, capacity, settings)
    demand = next((one for one in inside if one.uuid == demand.uuid), demand)
    given = demand.assigned - demand.demand
    if bound in (Bound.BACK, Bound.RATIO):
        return Cost(demand.assigned, 0, given)
    others = [one for one in inside if one.uuid != demand.uuid]
    kept = capacity.want + capacity.spare - _wanted(inside)
    by_size = spare(inside, 0.0, settings)
    part = max(0, by_size - spare(others, 0.0, settings)) if by_size == kept else 0
    return Cost(demand.demand, part, given)


def earned_words(capacity: Capacity) -> str | None:
    """What the host has earned, and by what; None where nothing can be earned."""
    found = capacity.evidence
    if found is None:
        return None
    if found.hours and found.share >= ALL:
        return f"nothing for {KEPT} days, for the host ran short of memory"
    if not suffices(found):
        return (
            f"nothing yet: it takes {NEEDED} hours in which VMs were given most of the host, and "
            f"{counted(found.hours, 'is', 'are')} seen"
        )
    told = f"{capacity.max_ratio:g} times its memory" if capacity.together else "no more than without it"
    return (
        f"{told}: in {found.hours} hours VMs used together no more than {found.share / 10:g} % of what they were given"
    )


def _counted(demands: Sequence[Demand], capacity: Capacity, settings: PlannerSettings) -> tuple[Demand, ...]:
    """What the VMs in the sums count with under what bounds the host."""
    inside = tuple(one for one in demands if one.reason is not DemandReason.OUTSIDE)
    if capacity.evidence is None or not capacity.together:
        return inside
    courses = (together(inside, capacity.evidence.share), at_present(inside))
    return max(courses, key=lambda vms: _wanted(vms) + spare(vms, 0.0, settings))


def _half_counts(capacity: Capacity, demands: Sequence[Demand]) -> bool:
    """Whether what bounds the host is that half of its VMs come at once."""
    inside = [one for one in demands if one.reason is not DemandReason.OUTSIDE]
    return capacity.together and capacity.want + capacity.spare == half_at_once(inside)


def _wanted(vms: Sequence[Demand]) -> int:
    return sum(one.demand for one in vms)


Lines = list[tuple[str, int, str]]


def _want(one: Capacity) -> str:
    return "what all VMs used together at their worst" if one.together else "what all VMs may come to need"


def _model(one: Capacity) -> Lines:
    return [
        ("pool", one.pool, "memory for VMs and all else, without huge page pools"),
        ("reserve", -one.reserve, "kept back for the host"),
        ("other", -one.other, "peak of the host's other work"),
        ("want", -one.want, _want(one)),
        ("spare", -one.spare, "for VMs that grow faster than levers act"),
    ]


def _now(one: Capacity) -> Lines:
    coming = max(0, one.want - one.resident)
    available = one.now + one.reserve + coming + one.spare if one.available is None else one.available
    saving = [] if not one.ksm_saving else [("KSM saving", -one.ksm_saving, "one write storm brings it back")]
    return [
        ("available", available, "what the kernel could give now"),
        *saving,
        ("reserve", -one.reserve, "kept back for the host"),
        ("want - resident", -coming, f"{_want(one)} beyond what they have"),
        ("spare", -one.spare, "for VMs that grow faster than levers act"),
    ]


def _back(one: Capacity) -> Lines:
    return [
        ("pool", one.pool, "memory for VMs and all else, without huge page pools"),
        ("reserve", -one.reserve, "kept back for the host"),
        ("other", -one.other, "peak of the host's other work"),
        ("backing", one.backing, "disk swap that others do not use, and allow_unbacked"),
        ("assigned", -one.assigned, "what all VMs were given, with QEMU's overhead"),
    ]


def _ratio(one: Capacity) -> Lines:
    ceiling = one.ceiling or 0
    return [
        ("max_ratio", ceiling + one.assigned, "max_ratio, or what the host has earned, times pool less reserve"),
        ("assigned", -one.assigned, "what all VMs were given, with QEMU's overhead"),
    ]


def _node(one: Capacity) -> Lines:
    return [("node", one.node or 0, "room of the tightest NUMA node that VMs are bound to")]


_LINES = {Bound.MODEL: _model, Bound.NOW: _now, Bound.BACK: _back, Bound.RATIO: _ratio, Bound.NODE: _node}
_HELD = {
    Bound.RATE: ("rate", "rises slowly"),
    Bound.PRESSURE: ("pressure", "nothing is promised under pressure"),
    Bound.STALE: ("sight", "VMs are not seen as of now: no more than nominal"),
}
