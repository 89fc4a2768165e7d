"""What the VMs will want: the first step of a plan, from what they did until now."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from memhint.objects.domain import DomainObservation, DomainState
from memhint.objects.host import HostObservation
from memhint.objects.plan import Demand, DemandReason
from memhint.objects.policy import Policy
from memhint.planner.backing import swap_backing
from memhint.planner.capacity import Sums
from memhint.planner.demand import demands_of, remember
from memhint.planner.growth import GrowthTable
from memhint.planner.nodes import nodes_of, tightest
from memhint.planner.page_cache import available
from memhint.planner.past import Past
from memhint.planner.predictors import predictor_of
from memhint.planner.settings import PlannerSettings
from memhint.planner.state import PlannerState
from memhint.planner.storm_learn import Counted, Storms, next_storms
from memhint.planner.window import Window


@dataclass(frozen=True, slots=True)
class Forecast:
    """The demand of each VM, the sums over those that count, and what is remembered for the next time."""

    demands: tuple[Demand, ...]
    inside: Sequence[DomainObservation]
    """The VMs that are in the sums."""
    sums: Sums
    elapsed: float | None
    """Seconds since the plan before; None for the first."""
    predictor: str
    past: Mapping[str, Past]
    footprint: Mapping[str, int]
    other: Window
    fault_in: Window
    storms: Storms
    unexplained: bool
    """Whether a VM may hold memory of which nobody knows how much: it seems to be other work's."""


def forecast(
    host: HostObservation,
    domains: Sequence[DomainObservation],
    policies: Mapping[str, Policy],
    state: PlannerState,
    now: float,
    settings: PlannerSettings,
    table: GrowthTable | None = None,
) -> Forecast:
    """Forecast from one more look."""
    predictor = predictor_of(settings)
    # What was remembered for another kind of forecast tells this one nothing: every VM is new to it.
    past = remember(state.past if state.predictor == predictor.key else {}, domains, now, predictor)
    demands = demands_of(domains, policies, past, now, settings, predictor, nodes_of(host), table)
    counted = [pair for pair in zip(domains, demands, strict=True) if pair[1].reason is not DemandReason.OUTSIDE]
    inside = [domain for domain, _ in counted]
    resident = sum(domain.process.rss for domain in inside if domain.process)
    saving = _ksm_saving(host, inside, state.ksm_saving)
    missed = _missed(state, inside, past)
    free = available(host, inside)
    others = host.pool - free - resident - sum(size or 0 for size in missed.values())
    # While KSM cannot be read what it saves at most counts for now; what is remembered is what is known.
    known = state.ksm_saving if host.unread("ksm") else saving
    # So may all be that VMs hold of which nobody knows how much: they count with all that they were given.
    unexplained = [one.assigned for one in demands if missed.get(one.uuid, 0) is None]
    other = state.other.lasting(settings.other_window, now).add(now, max(0.0, others + known - sum(unexplained)))
    footprint = {past[one.uuid].instance: one.process.footprint for one in inside if one.process}
    footprint |= {past[uuid].instance: size for uuid, size in missed.items() if size is not None}
    # What one has that arrives, or is starting, comes by no will of its own, and counts in full as it is. One that is
    # paused has grown before that.
    ran = {
        past[one.uuid].instance
        for one in inside
        if one.process and not past[one.uuid].waits and not _waited(state, one)
    }
    faulted = _fault_in_rate(state, {name: use for name, use in footprint.items() if name in ran}, now)
    fault_in = state.fault_in.lasting(settings.fault_in_window, now)
    if faulted is not None:
        fault_in = fault_in.add(now, faulted)
    sums = Sums(
        pool=host.pool,
        available=free,
        resident=resident,
        ksm_saving=saving,
        other=int(max(other.peak(), others + saving)),
        swap=swap_backing(host, inside, [one for _, one in counted], state.swap_most),
        fault_in_rate=fault_in.quantile(0.99),
        node=tightest(host, domains, demands, settings, saving),
    )
    storms = state.storms
    if settings.storm_learn:
        storms = next_storms(storms, _with_forecast(inside, demands, past), host.pool, now)
    elapsed = None if state.at is None else now - state.at
    return Forecast(
        demands, inside, sums, elapsed, predictor.key, past, footprint, other, fault_in, storms, bool(unexplained)
    )


def _with_forecast(
    domains: Sequence[DomainObservation], demands: Sequence[Demand], past: Mapping[str, Past]
) -> Iterator[Counted]:
    """The VMs that count with less than all they were given, or may."""
    processes = {one.uuid: past[one.uuid].instance for one in domains if one.process}
    for one in demands:
        if one.forecast is not None and one.uuid in processes:
            yield Counted(processes[one.uuid], one.assigned, one.demand, one.footprint)


def _ksm_saving(host: HostObservation, domains: Sequence[DomainObservation], before: int) -> int:
    """What unmerging would bring back, less the zero pages that VMs' footprints count already.

    While KSM cannot be read it is no less than ``before``, nor than what is merged of these VMs: all that a process
    holds where its kernel does not say.
    """
    if host.ksm is None:
        return max(before, sum(map(_merged, domains))) if host.unread("ksm") else 0
    counted = sum(one.process.ksm_zero or 0 for one in domains if one.process)
    zero = max(0, (host.ksm.zero_pages or 0) * host.page_size - counted)
    return host.ksm.pages_sharing * host.page_size + zero


def _merged(domain: DomainObservation) -> int:
    process = domain.process
    if process is None:
        return 0
    return process.rss if process.ksm_merging is None else process.ksm_merging


def _missed(
    state: PlannerState, domains: Sequence[DomainObservation], past: Mapping[str, Past]
) -> dict[str, int | None]:
    """What each VM held whose process was not read now, as while a large one ends, by UUID; None: nobody knows.

    No other work has come to that, and it would be remembered as such for long.
    """
    unread = [one.uuid for one in domains if one.process is None and one.state is not DomainState.SHUTOFF]
    return {uuid: state.footprint.get(past[uuid].instance) if uuid in past else None for uuid in unread}


def _waited(state: PlannerState, domain: DomainObservation) -> bool:
    """Whether it had not run yet a cycle ago: what came since then may have arrived."""
    before = state.past.get(domain.uuid)
    return before is not None and before.waits


def _fault_in_rate(state: PlannerState, footprint: Mapping[str, int], now: float) -> float | None:
    """Bytes per second by which the VMs that were there before grew; None with nothing to compare.

    Growth and shrinkage do not cancel out: what one VM gives back cannot be had in time by another.
    """
    if state.at is None or now <= state.at:
        return None
    grown = sum(max(0, use - state.footprint[name]) for name, use in footprint.items() if name in state.footprint)
    return grown / (now - state.at)
