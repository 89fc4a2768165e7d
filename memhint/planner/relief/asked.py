"""What is asked of VMs in one cycle: the ladder one step on, who is idle, and which VM gives what."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from memhint.objects.domain import DomainObservation
from memhint.objects.host import HostObservation
from memhint.objects.policy import Policy
from memhint.objects.relief import Relief
from memhint.planner.activity import keep_tuning, next_busy, next_idle, next_rest
from memhint.planner.cold import Cold
from memhint.planner.forecast import Forecast
from memhint.planner.ladder import LadderState, next_ladder
from memhint.planner.relief.relieve import fruitless, relieve
from memhint.planner.relief.swap_out import next_known
from memhint.planner.settings import PlannerSettings
from memhint.planner.signals import sample_of
from memhint.planner.state import PlannerState


@dataclass(frozen=True, slots=True)
class Asked:
    """The ladder, what it asks for, and what is remembered of who is idle."""

    ladder: LadderState
    relief: Relief
    idle: frozenset[str]
    busy: Mapping[str, float]
    tops: Mapping[str, int]
    cold: Mapping[str, Cold]


def ask(
    host: HostObservation,
    domains: Sequence[DomainObservation],
    policies: Mapping[str, Policy],
    unread: frozenset[str],
    seen: Forecast,
    state: PlannerState,
    now: float,
    settings: PlannerSettings,
) -> Asked:
    """One step of the ladder.

    :param unread: UUIDs of VMs that are asked for nothing
    """
    sample = sample_of(host, host.pool, seen.inside, state.counters, seen.elapsed)
    ladder = next_ladder(state.ladder, sample, now, settings.ladder)
    idle = next_idle(state.idle, state.footprint, seen.footprint, seen.elapsed, settings.ladder)
    busy = next_busy(state.busy, state.idle, idle, seen.footprint, seen.elapsed)
    tops, rested = next_rest(state.tops, state.footprint, seen.footprint, idle, seen.elapsed, settings.ladder)
    cold = next_known(state.cold, domains, seen.elapsed, settings)
    relief = relieve(
        ladder.rungs,
        [one for one in domains if one.uuid not in unread] if unread else domains,
        policies,
        idle,
        _shortage(host, seen.sums.available, settings),
        settings.ladder,
        state.migrate,
        {one.uuid: one.excluded for one in seen.demands if one.excluded},
        keep_tuning(state.tuning, domains, busy, rested, settings.ladder),
        cold,
    )
    return Asked(ladder.after(fruitless(relief, settings.ladder)), relief, idle, busy, tops, cold)


def _shortage(host: HostObservation, available: int, settings: PlannerSettings) -> int:
    """Bytes that must become available before the lowest rung is calm, and a little where another signal alarms."""
    calm = settings.ladder.rungs[0].limits.available_exit if settings.ladder.rungs else 0.0
    return max(host.pool // 100, int(host.pool * calm / 100) - available)
