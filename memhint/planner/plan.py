"""The whole plan in four steps: what VMs will want, what is asked of them, what is promised, and each lever's part."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from memhint.objects.domain import DomainObservation
from memhint.objects.estimate import DedupEstimate
from memhint.objects.host import HostObservation
from memhint.objects.plan import Bound, Capacity, DemandReason, Plan, PressureVerdict
from memhint.objects.policy import Policy
from memhint.objects.relief import Relief
from memhint.planner.actions import actions_of, with_splits
from memhint.planner.backing import swap_most
from memhint.planner.capacity import capacity
from memhint.planner.compaction import lacking_on, next_compaction, waits_of
from memhint.planner.earned_ratio import ALL, Earned, UsageSample, evidence, is_settled, next_earned
from memhint.planner.forecast import Forecast, forecast
from memhint.planner.growth import GrowthTable
from memhint.planner.host_cycle import HostCycle, HostPlans, Taken
from memhint.planner.ladder import LadderState, admission, entered_rungs, is_scarce
from memhint.planner.levers import PLANNED
from memhint.planner.pieces import taken_from, taken_of_use
from memhint.planner.promise import hysteresis, next_headroom
from memhint.planner.relief.asked import ask
from memhint.planner.settings import PlannerSettings
from memhint.planner.signals import counters_of
from memhint.planner.state import PlannerState
from memhint.planner.storm import learnt


class Sight(StrEnum):
    """How well the VMs are seen."""

    CLEAR = "clear"  # the list and every size are those of now
    STALE = "stale"  # some of it is of an earlier cycle: no more than nominal is promised
    BLIND = "blind"  # not known, or too old to count for anything: nothing is promised


@dataclass(frozen=True, slots=True)
class Planned:
    """A plan, and the state to hand to the next one."""

    plan: Plan
    of_host: HostPlans
    state: PlannerState


def plan(
    host: HostObservation,
    domains: Sequence[DomainObservation],
    policies: Mapping[str, Policy],
    state: PlannerState,
    now: float,
    settings: PlannerSettings,
    *,
    sight: Sight = Sight.CLEAR,
    estimated: DedupEstimate | None = None,
    unread: frozenset[str] = frozenset(),
    missing: str | None = None,
    growth: GrowthTable | None = None,
) -> Planned:
    """Plan one cycle.

    :param now: seconds of any clock that only moves forward
    :param unread: UUIDs of VMs of which no more than the size is known: they count, and are asked for nothing
    :param missing: what keeps the VMs as a whole from being known; then nothing new is said of who merges
    :param estimated: what merging would save; None where nothing estimates it
    :param growth: what the fleet learnt of how VMs grow; None where it has learnt nothing
    """
    seen = forecast(host, domains, policies, state, now, settings, growth)
    asked = ask(host, domains, policies, unread, seen, state, now, settings)
    clear = sight is Sight.CLEAR
    ran_short = is_scarce(asked.ladder, settings.ladder) or _killed(host, state)
    look = _look(seen, ran_short, settings)
    promised, remembered = _promised(seen, look, asked.ladder, state, now, sight, settings)
    if not clear or seen.unexplained or host.unread("ksm"):
        # All that a VM holds that nobody named is other work's, and so is all that KSM may save: VMs seem not to fit.
        look = replace(look, assigned=0, failed=ran_short)
    earned = next_earned(state.earned, look, now) if _may_earn(settings) else Earned()
    cycle = HostCycle(
        host=host,
        domains=domains,
        policies=policies,
        unread=unread,
        missing=missing,
        estimated=estimated,
        relief=asked.relief,
        idle=asked.idle,
        calm=not asked.ladder.entered,
        now=now,
        elapsed=seen.elapsed,
        settings=settings,
    )
    plans, relief, state_of_levers = _of_levers(cycle, state)
    actions = actions_of(domains, policies, plans, relief, calm=cycle.calm)
    return Planned(
        Plan(
            promised,
            seen.demands,
            _admission(asked.ladder, now, sight, settings),
            with_splits(actions, relief, domains, estimated),
            entered_rungs(asked.ladder, now),
            relief,
        ),
        plans,
        replace(
            state_of_levers,
            at=now,
            past=seen.past,
            other=seen.other if clear else state.other.lasting(settings.other_window, now),
            fault_in=seen.fault_in,
            ksm_saving=state.ksm_saving if host.unread("ksm") else seen.sums.ksm_saving,
            swap_most=swap_most(host, state.swap_most),
            storms=seen.storms,
            earned=earned,
            oom_kills=state.oom_kills if host.oom_kills is None else host.oom_kills,
            footprint=seen.footprint,
            counters=counters_of(host),
            ladder=asked.ladder,
            idle=asked.idle,
            busy=asked.busy,
            tops=asked.tops,
            tuning=asked.relief.tuning,
            migrate=asked.relief.migrate,
            headroom=remembered,
            predictor=seen.predictor,
            compaction=next_compaction(
                state.compaction,
                waits_of(host),
                seen.elapsed,
                lacking=lacking_on(host, state.compaction.lacking),
            ),
            cold=asked.cold,
        ),
    )


def _promised(
    seen: Forecast,
    look: UsageSample,
    ladder: LadderState,
    state: PlannerState,
    now: float,
    sight: Sight,
    settings: PlannerSettings,
) -> tuple[Capacity, int]:
    """The capacity with what is promised of it, and the headroom to remember. Nothing is promised blind."""
    proven = evidence(state.earned) if _may_earn(settings) else None
    if proven is not None and look.failed:
        proven = replace(proven, share=ALL)
    found = capacity(seen.sums, seen.demands, learnt(settings, seen.storms.percent), proven)
    promised = _promise(found, ladder, state, now, settings)
    if sight is Sight.CLEAR:
        return promised, promised.headroom
    # One late answer costs the promise of one cycle: it need not rise again from nominal once all is seen. Nor from
    # nothing where it is the first one: that began at nominal at most.
    remembered = 0 if sight is Sight.BLIND else min(promised.headroom, _stood(found, state))
    most = 0 if sight is Sight.BLIND else max(0, promised.nominal_headroom())
    if promised.headroom > most:
        promised = replace(promised, headroom=most, bound=Bound.STALE)
    return replace(promised, blind=sight is Sight.BLIND), remembered


def _may_earn(settings: PlannerSettings) -> bool:
    return settings.earned_max_ratio > settings.max_ratio


def _killed(host: HostObservation, state: PlannerState) -> bool:
    """Whether a process was killed for want of memory since that was counted last.

    Of a VM that is killed in its cgroup, or for the want of a node, nothing else says that it did not fit.
    """
    return host.oom_kills is not None and state.oom_kills is not None and host.oom_kills > state.oom_kills


def _look(seen: Forecast, ran_short: bool, settings: PlannerSettings) -> UsageSample:
    """What this cycle adds to the evidence. VMs that do not fit say that the host runs short, too."""
    sums = seen.sums
    base = sums.pool - settings.reserve_of(sums.pool)
    inside = [one for one in seen.demands if one.reason is not DemandReason.OUTSIDE]
    settled = [one for one in inside if is_settled(one)]
    return UsageSample(
        use=sum(one.footprint for one in settled),
        assigned=sum(one.assigned for one in settled),
        base=base,
        failed=sum(one.footprint for one in inside) > base - sums.other or ran_short,
    )


def _of_levers(cycle: HostCycle, state: PlannerState) -> tuple[HostPlans, Relief, PlannerState]:
    """The plan of each lever that has one for the whole host, what is asked of VMs, and the state after it."""
    plans = {}
    for lever in PLANNED:
        if lever.plan_host is not None:
            plans[lever.name], state = lever.plan_host(cycle, state)
    taken = Taken(taken_from(cycle.relief, plans), taken_of_use(cycle.relief, plans))
    for lever in PLANNED:
        if lever.ask_last is not None:
            relief, state = lever.ask_last(cycle, taken, state)
            cycle = replace(cycle, relief=relief)
    return plans, cycle.relief, state


def _stood(found: Capacity, state: PlannerState) -> int:
    """What was promised before this plan.

    Before the first one nobody promised anything but whoever counts what VMs were given: to begin below that would
    close every host on which an agent starts.
    """
    return max(0, found.nominal_headroom()) if state.at is None else state.headroom


def _promise(
    found: Capacity, ladder: LadderState, state: PlannerState, now: float, settings: PlannerSettings
) -> Capacity:
    """Lower at once, raise slowly; nothing under pressure."""
    if ladder.entered:
        return replace(found, headroom=0, bound=Bound.PRESSURE)
    elapsed = 0.0 if state.at is None else now - state.at
    promised = next_headroom(_stood(found, state), found.headroom, found.pool, elapsed, settings)
    if found.headroom - promised >= max(1, hysteresis(found.pool, settings)):
        return replace(found, headroom=promised, bound=Bound.RATE)
    return replace(found, headroom=promised)  # as good as there: what bounds it is what bounds the formula


def _admission(ladder: LadderState, now: float, sight: Sight, settings: PlannerSettings) -> PressureVerdict:
    if sight is Sight.BLIND:
        return PressureVerdict(False, "the VMs of this host are not seen")
    return admission(ladder, now, settings.ladder)
