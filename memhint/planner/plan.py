"""The whole plan: demand, capacity, pressure and what is to be pulled, from one observation and the state before it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from memhint.objects.domain import DomainObservation
from memhint.objects.estimate import DedupEstimate
from memhint.objects.host import HostObservation
from memhint.objects.lever import Action, LeverName
from memhint.objects.ownership import HOST
from memhint.objects.plan import Bound, Capacity, DemandReason, Plan, PressureVerdict
from memhint.objects.policy import Mode, Policy
from memhint.objects.tuning import Tuning
from memhint.planner.activity import keep_tuning, next_busy, next_idle, next_rest
from memhint.planner.backing import swap_backing
from memhint.planner.capacity import Sums, capacity
from memhint.planner.dedup import AutoInput, DedupPlan, as_before, plan_dedup
from memhint.planner.dedup_auto import AutoState, pressed
from memhint.planner.dedup_pace import PaceState, next_pace
from memhint.planner.demand import demands_of, remember
from memhint.planner.ladder import LadderState, admission, entered_rungs, next_ladder
from memhint.planner.nodes import tightest
from memhint.planner.past import Past
from memhint.planner.predictors import predictor_of
from memhint.planner.promise import hysteresis, next_headroom
from memhint.planner.relief.relieve import fruitless, relief_actions, relieve
from memhint.planner.settings import PlannerSettings
from memhint.planner.signals import Counters, counters_of, sample_of
from memhint.planner.window import Window


class Sight(StrEnum):
    """How well the VMs are seen."""

    CLEAR = "clear"  # the list and every size are those of now
    STALE = "stale"  # some of it is of an earlier cycle: no more than nominal is promised
    BLIND = "blind"  # not known, or too old to count for anything: nothing is promised


@dataclass(frozen=True, slots=True)
class PlannerState:
    """What one cycle hands to the next."""

    other: Window
    fault_in: Window
    at: float | None = None
    past: Mapping[str, Past] = field(default_factory=dict)
    footprint: Mapping[str, int] = field(default_factory=dict)  # by QEMU process
    counters: Counters = field(default_factory=Counters)
    ladder: LadderState = field(default_factory=LadderState)
    idle: frozenset[str] = frozenset()  # QEMU processes
    busy: Mapping[str, float] = field(default_factory=dict)  # the others, and for how many seconds
    tops: Mapping[str, int] = field(default_factory=dict)  # by QEMU process: its largest footprint since it was at rest
    tuning: Mapping[str, Tuning] = field(default_factory=dict)  # as asked for last
    migrate: str | None = None
    headroom: int = 0  # as promised last, or as it would have been had all VMs been seen
    dedup_project: str | None = None
    predictor: str = ""  # whose past it is
    dedup_auto: AutoState = field(default_factory=AutoState)
    dedup_pace: PaceState = field(default_factory=PaceState)


def unlisted(state: PlannerState, now: PlannerState) -> PlannerState:
    """What is remembered after a cycle in which nobody named the VMs: of none of them anything is forgotten."""
    return replace(state, at=now.at, headroom=now.headroom, ladder=now.ladder, counters=now.counters)


@dataclass(frozen=True, slots=True)
class Planned:
    """A plan, and the state to hand to the next one."""

    plan: Plan
    dedup: DedupPlan
    state: PlannerState


def start(settings: PlannerSettings) -> PlannerState:
    """The state of a planner that has seen nothing: every VM is new, what was promised is nominal."""
    return PlannerState(other=Window(settings.other_window), fault_in=Window(settings.fault_in_window))


def plan(
    host: HostObservation,
    domains: Sequence[DomainObservation],
    policies: Mapping[str, Policy],
    state: PlannerState,
    now: float,
    settings: PlannerSettings,
    *,
    allow_cross_tenant: bool = False,
    sight: Sight = Sight.CLEAR,
    estimated: DedupEstimate | None = None,
    unread: frozenset[str] = frozenset(),
    missing: str | None = None,
) -> Planned:
    """Plan one cycle.

    :param now: seconds of any clock that only moves forward
    :param unread: UUIDs of VMs of which no more than the size is known: they count, and are asked for nothing
    :param missing: what keeps the VMs as a whole from being known; then nothing new is said of who merges
    :param estimated: what merging would save; None where nothing estimates it
    """
    predictor = predictor_of(settings)
    # What was remembered for another kind of forecast tells this one nothing: every VM is new to it.
    past = remember(state.past if state.predictor == predictor.key else {}, domains, now, predictor)
    nodes = sum(node.total > 0 for node in host.numa)
    demands = demands_of(domains, policies, past, now, settings, predictor, nodes)
    inside = [domain for domain, one in zip(domains, demands, strict=True) if one.reason is not DemandReason.OUTSIDE]
    resident = sum(domain.process.rss for domain in inside if domain.process)
    pool = host.pool
    saving = _ksm_saving(host, inside)
    other = state.other.add(now, max(0.0, pool - host.memory.available - (resident - saving)))
    footprint = {past[one.uuid].instance: one.process.footprint for one in inside if one.process}
    faulted = _fault_in_rate(state, footprint, now)
    fault_in = state.fault_in if faulted is None else state.fault_in.add(now, faulted)
    elapsed = None if state.at is None else now - state.at
    sample = sample_of(host, pool, inside, state.counters, elapsed)
    ladder = next_ladder(state.ladder, sample, now, settings.ladder)
    idle = next_idle(state.idle, state.footprint, footprint, elapsed, settings.ladder)
    excluded = {one.uuid: one.excluded for one in demands if one.excluded}
    shortage = _shortage(host, pool, settings)
    busy = next_busy(state.busy, state.idle, idle, footprint, elapsed)
    tops, rested = next_rest(state.tops, state.footprint, footprint, idle, elapsed, settings.ladder)
    kept = keep_tuning(state.tuning, domains, busy, rested, settings.ladder)
    known = [one for one in domains if one.uuid not in unread] if unread else domains
    relief = relieve(ladder.rungs, known, policies, idle, shortage, settings.ladder, state.migrate, excluded, kept)
    ladder = ladder.after(fruitless(relief, settings.ladder))
    sums = Sums(
        pool=pool,
        available=host.memory.available,
        resident=resident,
        ksm_saving=saving,
        other=int(other.peak()),
        swap=swap_backing(host, inside),
        fault_in_rate=fault_in.quantile(0.99),
        node=tightest(host, domains, demands, settings),
    )
    promised = _promise(capacity(sums, demands, settings), ladder, state, now, settings)
    remembered = promised.headroom
    if sight is not Sight.CLEAR:
        # One late answer costs the promise of one cycle: it need not rise again from nominal once all is seen.
        remembered = 0 if sight is Sight.BLIND else min(remembered, state.headroom)
        most = 0 if sight is Sight.BLIND else max(0, promised.nominal_headroom())
        if promised.headroom > most:
            promised = replace(promised, headroom=most, bound=Bound.STALE)
    wanted = pressed(settings.dedup_auto) if relief.dedup else settings.dedup_auto
    auto = AutoInput(estimated, host.ksm, state.dedup_auto, now, wanted)
    dedup = plan_dedup(domains, policies, state.dedup_project, allow_cross_tenant, nodes, auto)
    pace, pace_state = next_pace(state.dedup_pace, host.ksm, _unmerged(domains, dedup), idle, settings.dedup_pace)
    dedup = replace(dedup, pace=pace)
    project = dedup.project
    if missing is not None:
        dedup = as_before(dedup, policies, state.dedup_auto, missing)
        project, pace_state = state.dedup_project, state.dedup_pace
    actions = (
        *_reporting_actions(domains, policies),
        *_dedup_actions(domains, dedup),
        *relief_actions(relief, calm=not ladder.entered),
    )
    return Planned(
        Plan(promised, demands, _admission(ladder, now, sight, settings), actions, entered_rungs(ladder, now), relief),
        dedup,
        PlannerState(
            at=now,
            past=past,
            other=other,
            fault_in=fault_in,
            footprint=footprint,
            counters=counters_of(host),
            ladder=ladder,
            idle=idle,
            busy=busy,
            tops=tops,
            tuning=relief.tuning,
            migrate=relief.migrate,
            headroom=remembered,
            dedup_project=project,
            predictor=predictor.key,
            dedup_auto=dedup.auto,
            dedup_pace=pace_state,
        ),
    )


def _ksm_saving(host: HostObservation, domains: Sequence[DomainObservation]) -> int:
    """What unmerging would bring back, less the zero pages that VMs' footprints count already."""
    if host.ksm is None:
        return 0
    counted = sum(one.process.ksm_zero or 0 for one in domains if one.process)
    zero = max(0, (host.ksm.zero_pages or 0) * host.page_size - counted)
    return host.ksm.pages_sharing * host.page_size + zero


def _unmerged(domains: Sequence[DomainObservation], dedup: DedupPlan) -> dict[str, int]:
    """Resident bytes that are not merged, of each QEMU process that may merge."""
    return {
        one.process.instance: max(0, one.process.rss - (one.process.ksm_merging or 0))
        for one in domains
        if one.uuid in dedup.members and one.process is not None
    }


def _fault_in_rate(state: PlannerState, footprint: Mapping[str, int], now: float) -> float | None:
    """Bytes per second by which the VMs that were there before grew; None with nothing to compare.

    Growth and shrinkage do not cancel out: what one VM gives back cannot be had in time by another.
    """
    if state.at is None or now <= state.at:
        return None
    grown = sum(max(0, use - state.footprint[name]) for name, use in footprint.items() if name in state.footprint)
    return grown / (now - state.at)


def _shortage(host: HostObservation, pool: int, settings: PlannerSettings) -> int:
    """Bytes that must become available before the lowest rung is calm, and a little where another signal alarms."""
    calm = settings.ladder.rungs[0].limits.available_exit if settings.ladder.rungs else 0.0
    return max(pool // 100, int(pool * calm / 100) - host.memory.available)


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


def _reporting_actions(domains: Sequence[DomainObservation], policies: Mapping[str, Policy]) -> list[Action]:
    actions = []
    for domain in domains:
        policy = policies[domain.uuid]
        wish = policy.reporting
        if wish is not Mode.AUTO:
            origin = policy.settings["reporting"].origin
            actions.append(Action(LeverName.REPORTING, domain.uuid, wish, f"asked for by {origin}"))
    return actions


def _dedup_actions(domains: Sequence[DomainObservation], dedup: DedupPlan) -> list[Action]:
    """Out first, in last, so that nobody merges who was not asked; with no member there is nothing to do."""
    if not dedup.members:
        return []
    outside = [one.uuid for one in domains if one.uuid not in dedup.members]
    return [
        *(Action(LeverName.DEDUP, uuid, Mode.OFF, "did not opt in, or may not") for uuid in outside),
        *(Action(LeverName.DEDUP, uuid, Mode.ON, _why_in(uuid, dedup)) for uuid in sorted(dedup.members)),
        Action(LeverName.DEDUP, HOST, Mode.ON, f"{len(dedup.members)} VMs merge"),
    ]


def _why_in(uuid: str, dedup: DedupPlan) -> str:
    return "the estimate says that it pays" if uuid in dedup.auto.members else "opted in"
