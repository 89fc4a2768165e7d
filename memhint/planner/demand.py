"""What each VM may fault in again: D, from A and U, from what was seen before, and from its policy."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from memhint.objects.domain import DomainObservation, DomainState
from memhint.objects.exclusion import Excluded, Exclusion
from memhint.objects.plan import Demand, DemandReason
from memhint.objects.policy import Policy
from memhint.planner import growth
from memhint.planner.exclusions import exclusions
from memhint.planner.growth import GrowthTable
from memhint.planner.past import Past
from memhint.planner.predictors import Predictor
from memhint.planner.settings import PlannerSettings

# Seconds and number of VMs. A hard reboot defines the VM again, so that it is not there for a while.
AWAY, MOST_AWAY = 3600.0, 1024
_BELOW_MINIMUM = "its forecast is below its minimum"


def remember(
    past: Mapping[str, Past], domains: Iterable[DomainObservation], now: float, predictor: Predictor
) -> dict[str, Past]:
    """The past of every VM that is still there, moved to ``now`` where it was observed, or that was an hour ago.

    A VM that has not run yet used nothing, and that says nothing of what it will use: it is new when it runs. Nor does
    what it used with less memory say what it will use of more: it is new again when some is plugged in. As old as it is
    it stays all the same.
    """
    moved: dict[str, Past] = {}
    there: set[str] = set()
    for domain in domains:
        there.add(domain.uuid)
        before = past.get(domain.uuid)
        process = domain.process
        if process is None:
            if before is not None:
                moved[domain.uuid] = before  # one missed reading is no new life
            continue
        if before is None:
            found = predictor.first(process.instance, process.footprint, now)
        elif before.instance != process.instance:
            # A VM that was rebooted does again what it did: it counts in full at first, and then by all of its past.
            found = replace(
                predictor.next(before, process.footprint, now),
                instance=process.instance,
                first_seen=now,
                waits=False,
                born=before.since,
            )
            before = None
        else:
            found = predictor.next(before, process.footprint, now)
        if domain.state is not DomainState.RUNNING and (before is None or before.waits):
            found = replace(found, first_seen=now, waits=True)
        elif found.waits:
            found = replace(found, waits=False)
        memory = domain.facts.memory
        if memory and memory != found.memory:
            if 0 < found.memory < memory:
                found = replace(found, first_seen=now, born=found.since)
            found = replace(found, memory=memory)
        moved[domain.uuid] = found
    return {**_away(past, there, now), **moved}


def _away(past: Mapping[str, Past], there: Collection[str], now: float) -> dict[str, Past]:
    """The pasts of VMs that left not long ago: of too many, those that were seen last."""
    found = [uuid for uuid, one in past.items() if uuid not in there and 0 <= now - one.at <= AWAY]
    if len(found) > MOST_AWAY:
        found = sorted(found, key=lambda uuid: past[uuid].at)[-MOST_AWAY:]
    return {uuid: past[uuid] for uuid in found}


def decay(forecast: int, assigned: int, age: float, seconds: float) -> int:
    """A new VM's D: falls linearly from A to the forecast within ``seconds``, never below the line."""
    left = 1.0 - max(0.0, age) / seconds
    return min(assigned, forecast + int((assigned - forecast) * left) + 1)


def demands_of(
    domains: Sequence[DomainObservation],
    policies: Mapping[str, Policy],
    past: Mapping[str, Past],
    now: float,
    settings: PlannerSettings,
    predictor: Predictor,
    nodes: int = 1,
    table: GrowthTable | None = None,
) -> tuple[Demand, ...]:
    """Every VM's A, U and D in bytes, in the order of ``domains``.

    D is A for whatever may claim all of it without being seen to: stopped, paused, incoming, excluded, guaranteed, not
    observed. Otherwise it is the forecast, not below the VM's minimum nor what VMs like it came to;
    a new VM's decays from A to that.

    :param past: as ``remember`` gave it for these domains
    :param nodes: the host's NUMA nodes that have memory
    :param table: what the fleet learnt; None where it has learnt nothing
    """
    found: list[Demand | None] = []
    waiting: list[tuple[int, str, str | None, int]] = []  # of each VM with a forecast: place, UUID, group, minimum
    uses: list[int] = []
    most: list[int] = []
    pasts: list[Past] = []
    for domain in domains:
        uuid, policy, process = domain.uuid, policies[domain.uuid], domain.process
        use = process.footprint if process else 0
        pools = on_pools(domain, settings.overhead)
        assigned = max(domain.facts.memory - pools + settings.overhead, use)
        minimum = policy.minimum
        if minimum:
            minimum = min(assigned, minimum + settings.overhead)
        excluded = exclusions(domain, policy, nodes)
        seen = past.get(uuid)
        if process and seen and not excluded and domain.state is DomainState.RUNNING:
            waiting.append((len(found), uuid, policy.group, minimum))
            uses.append(use)
            most.append(assigned)
            pasts.append(seen)
            found.append(None)
            continue
        reason, detail = _in_full(domain, excluded, outside=0 < domain.facts.memory <= pools)
        demand = 0 if reason is DemandReason.OUTSIDE else assigned
        found.append(Demand(uuid, assigned, use, demand, reason, detail, None, minimum, policy.group, excluded))
    forecasts = predictor.forecast(uses, most, pasts)
    for (place, uuid, group, minimum), use, assigned, seen, forecast in zip(
        waiting, uses, most, pasts, forecasts, strict=True
    ):
        age = now - seen.first_seen
        # The fleet's VMs told by their own age, not by that of their processes.
        old = now - seen.since
        like = growth.outlook(table, old, use, assigned) if table and settings.growth_floor else growth.NOTHING
        grown = growth.floor(like, assigned)
        demand, reason, detail = max(forecast, minimum, grown), DemandReason.FORECAST, predictor.words
        if demand > forecast:
            reason, detail = DemandReason.GROWTH, growth.sentence(like)
            if minimum >= grown:
                reason, detail = DemandReason.MINIMUM, _BELOW_MINIMUM
        if age < settings.new_vm_decay:
            demand = decay(demand, assigned, age, settings.new_vm_decay)
            reason, detail = DemandReason.NEW, f"seen for {age:.0f} s"
        found[place] = Demand(uuid, assigned, use, demand, reason, detail, forecast, minimum, group, growth=grown)
    return tuple(one for one in found if one is not None)


def on_pools(domain: DomainObservation, overhead: int) -> int:
    """Bytes of a VM's memory that really are on the host's pools of huge pages: they are in no sum of the others.

    The definition says how much should be. No process has huge pages among its RSS, so one with more there than the
    rest of its VM and a QEMU could take has its memory on ordinary pages after all, as QEMU falls back to them: then
    nothing is believed.

    :param overhead: bytes that QEMU itself takes
    """
    facts, process = domain.facts, domain.process
    if not facts.hugetlb:
        return 0
    most = facts.memory - facts.hugetlb + overhead + facts.hugetlb // 8
    return 0 if process is not None and process.footprint > most else facts.hugetlb


def _in_full(domain: DomainObservation, excluded: Sequence[Excluded], *, outside: bool) -> tuple[DemandReason, str]:
    """Why a VM has no forecast.

    :param outside: whether all of its memory is on the host's pools of huge pages
    """
    if outside and excluded and excluded[0].reason is Exclusion.HUGEPAGES:
        return DemandReason.OUTSIDE, excluded[0].detail
    if domain.state is not DomainState.RUNNING:
        return DemandReason.STOPPED, f"is {domain.state}"
    if excluded:
        only = excluded[0].reason is Exclusion.GUARANTEED
        detail = "; ".join(one.detail for one in excluded)
        return DemandReason.GUARANTEED if only else DemandReason.EXCLUDED, detail
    return DemandReason.UNOBSERVED, "its process was not read"
