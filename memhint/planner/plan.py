"""The whole plan in four steps: what VMs will want, what is asked of them, what is promised, and who merges."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from memhint.objects.domain import DomainObservation
from memhint.objects.estimate import DedupEstimate
from memhint.objects.host import HostObservation
from memhint.objects.plan import Bound, Capacity, DemandReason, Plan, PressureVerdict
from memhint.objects.policy import Policy
from memhint.objects.relief import Relief
from memhint.planner.actions import actions_of, with_splits
from memhint.planner.capacity import capacity
from memhint.planner.compaction import lacking_on, next_compaction, waits_of
from memhint.planner.dedup import AutoInput, Course, DedupPlan, as_before, plan_dedup
from memhint.planner.dedup_auto import pressed
from memhint.planner.dedup_breaks import BreakState, next_breaks
from memhint.planner.dedup_pace import PaceState, next_pace
from memhint.planner.dedup_yield import TurnState
from memhint.planner.earned_ratio import ALL, Earned, UsageSample, evidence, is_settled, next_earned
from memhint.planner.forecast import Forecast, forecast, nodes_of
from memhint.planner.growth import GrowthTable
from memhint.planner.ladder import LadderState, admission, entered_rungs, is_scarce
from memhint.planner.pieces import taken_from, taken_of_use
from memhint.planner.promise import hysteresis, next_headroom
from memhint.planner.relief.asked import Asked, ask
from memhint.planner.settings import PlannerSettings
from memhint.planner.signals import counters_of
from memhint.planner.state import PlannerState
from memhint.planner.storm import learnt
from memhint.planner.thp import collapses, cpu_of, next_split, working
from memhint.planner.tiering import TieringPlan, plan_tiering


class Sight(StrEnum):
    """How well the VMs are seen."""

    CLEAR = "clear"  # the list and every size are those of now
    STALE = "stale"  # some of it is of an earlier cycle: no more than nominal is promised
    BLIND = "blind"  # not known, or too old to count for anything: nothing is promised


@dataclass(frozen=True, slots=True)
class Planned:
    """A plan, and the state to hand to the next one."""

    plan: Plan
    dedup: DedupPlan
    state: PlannerState
    tiering: TieringPlan = field(default_factory=TieringPlan)


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
    promised, remembered = _promised(seen, asked.ladder, state, now, sight, settings)
    earned = next_earned(state.earned, _look(seen, asked.ladder, settings), now) if _may_earn(settings) else Earned()
    merging = _merging(host, domains, policies, estimated, missing, asked, state, now, settings)
    relief, split = _huge(domains, policies, unread, asked, merging, state, seen.elapsed, host.at, settings)
    actions = actions_of(domains, policies, merging.plan, relief, calm=not asked.ladder.entered)
    return Planned(
        Plan(
            promised,
            seen.demands,
            _admission(asked.ladder, now, sight, settings),
            with_splits(actions, relief, domains, estimated),
            entered_rungs(asked.ladder, now),
            relief,
        ),
        merging.plan,
        PlannerState(
            at=now,
            past=seen.past,
            other=seen.other,
            fault_in=seen.fault_in,
            storms=seen.storms,
            earned=earned,
            footprint=seen.footprint,
            counters=counters_of(host),
            ladder=asked.ladder,
            idle=asked.idle,
            busy=asked.busy,
            tops=asked.tops,
            tuning=asked.relief.tuning,
            migrate=asked.relief.migrate,
            headroom=remembered,
            dedup_project=merging.project,
            predictor=seen.predictor,
            dedup_auto=merging.plan.auto,
            dedup_pace=merging.pace,
            dedup_turn=merging.turn,
            dedup_breaks=merging.breaks,
            split=split,
            cpu=cpu_of(domains),
            compaction=next_compaction(
                state.compaction,
                waits_of(host),
                seen.elapsed,
                lacking=lacking_on(host, state.compaction.lacking),
            ),
            cold=asked.cold,
        ),
        plan_tiering(domains, policies, unread),
    )


def _promised(
    seen: Forecast, ladder: LadderState, state: PlannerState, now: float, sight: Sight, settings: PlannerSettings
) -> tuple[Capacity, int]:
    """The capacity with what is promised of it, and the headroom to remember. Nothing is promised blind."""
    proven = evidence(state.earned) if _may_earn(settings) else None
    if proven is not None and _look(seen, ladder, settings).failed:
        proven = replace(proven, share=ALL)
    found = capacity(seen.sums, seen.demands, learnt(settings, seen.storms.percent), proven)
    promised = _promise(found, ladder, state, now, settings)
    if sight is Sight.CLEAR:
        return promised, promised.headroom
    # One late answer costs the promise of one cycle: it need not rise again from nominal once all is seen.
    remembered = 0 if sight is Sight.BLIND else min(promised.headroom, state.headroom)
    most = 0 if sight is Sight.BLIND else max(0, promised.nominal_headroom())
    if promised.headroom > most:
        promised = replace(promised, headroom=most, bound=Bound.STALE)
    return replace(promised, blind=sight is Sight.BLIND), remembered


def _may_earn(settings: PlannerSettings) -> bool:
    return settings.earned_max_ratio > settings.max_ratio


def _look(seen: Forecast, ladder: LadderState, settings: PlannerSettings) -> UsageSample:
    """What this cycle adds to the evidence. The host runs short where VMs do not fit, or rungs say that it does."""
    sums = seen.sums
    base = sums.pool - settings.reserve_of(sums.pool)
    inside = [one for one in seen.demands if one.reason is not DemandReason.OUTSIDE]
    settled = [one for one in inside if is_settled(one)]
    return UsageSample(
        use=sum(one.footprint for one in settled),
        assigned=sum(one.assigned for one in settled),
        base=base,
        failed=sum(one.footprint for one in inside) > base - sums.other or is_scarce(ladder, settings.ladder),
    )


@dataclass(frozen=True, slots=True)
class _Merging:
    """Who merges, and what is remembered of it."""

    plan: DedupPlan
    project: str | None
    pace: PaceState
    turn: TurnState
    breaks: BreakState


def _merging(
    host: HostObservation,
    domains: Sequence[DomainObservation],
    policies: Mapping[str, Policy],
    estimated: DedupEstimate | None,
    missing: str | None,
    asked: Asked,
    state: PlannerState,
    now: float,
    settings: PlannerSettings,
) -> _Merging:
    wanted = pressed(settings.dedup_auto) if asked.relief.dedup else settings.dedup_auto
    auto = AutoInput(estimated, host.ksm, state.dedup_auto, now, wanted)
    breaks = next_breaks(state.dedup_breaks, host, domains, now, settings.dedup_breaks)
    course = Course(state.dedup_turn, breaks, settings.dedup_await_looks)
    dedup = plan_dedup(
        domains, policies, state.dedup_project, settings.dedup_cross_tenant, nodes_of(host), auto, course
    )
    pace, pace_state = next_pace(state.dedup_pace, host.ksm, _unmerged(domains, dedup), asked.idle, settings.dedup_pace)
    if missing is not None:
        held = as_before(replace(dedup, pace=pace), policies, state.dedup_auto, missing)
        return _Merging(held, state.dedup_project, state.dedup_pace, state.dedup_turn, breaks)
    return _Merging(replace(dedup, pace=pace), dedup.project, pace_state, dedup.turn, breaks)


def _huge(
    domains: Sequence[DomainObservation],
    policies: Mapping[str, Policy],
    unread: frozenset[str],
    asked: Asked,
    merging: _Merging,
    state: PlannerState,
    elapsed: float | None,
    at: float,
    settings: PlannerSettings,
) -> tuple[Relief, dict[str, float]]:
    """What is asked for, with who gets huge pages again, and what is remembered of whose were split."""
    known = [one for one in domains if one.uuid not in unread]
    taken = taken_from(asked.relief, merging.plan.members)
    # For the other levers a VM that works within the memory it has is idle: what it has freed it does not use.
    idle = asked.idle - working(known, state.cpu, elapsed, at, settings.collapse)
    split = next_split(state.split, domains, taken, idle, elapsed, settings.collapse)
    # Of a VM that works, what it works with can be whole again though single pages that it frees go on being taken.
    apart = frozenset(
        one.uuid for one in known if one.uuid in taken and (one.process is None or one.process.instance in idle)
    ) | taken_of_use(asked.relief, merging.plan.members)
    anew = collapses(known, policies, split, apart, idle, settings.collapse, calm=not asked.ladder.entered)
    return replace(asked.relief, thp=anew), split


def _unmerged(domains: Sequence[DomainObservation], dedup: DedupPlan) -> dict[str, int]:
    """Resident bytes that are not merged, of each QEMU process that may merge."""
    return {
        one.process.instance: max(0, one.process.rss - (one.process.ksm_merging or 0))
        for one in domains
        if one.uuid in dedup.members and one.process is not None
    }


def _promise(
    found: Capacity, ladder: LadderState, state: PlannerState, now: float, settings: PlannerSettings
) -> Capacity:
    """Lower at once, raise slowly; nothing under pressure."""
    if ladder.entered:
        return replace(found, headroom=0, bound=Bound.PRESSURE)
    elapsed = 0.0 if state.at is None else now - state.at
    # Nobody promised anything before the first plan but whoever counts what VMs were given: to begin below that would
    # close every host on which an agent starts.
    before = max(0, found.nominal_headroom()) if state.at is None else state.headroom
    promised = next_headroom(before, found.headroom, found.pool, elapsed, settings)
    if found.headroom - promised >= max(1, hysteresis(found.pool, settings)):
        return replace(found, headroom=promised, bound=Bound.RATE)
    return replace(found, headroom=promised)  # as good as there: what bounds it is what bounds the formula


def _admission(ladder: LadderState, now: float, sight: Sight, settings: PlannerSettings) -> PressureVerdict:
    if sight is Sight.BLIND:
        return PressureVerdict(False, "the VMs of this host are not seen")
    return admission(ladder, now, settings.ladder)
