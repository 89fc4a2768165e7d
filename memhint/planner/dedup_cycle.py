"""One cycle of merging: who merges now, and what is remembered of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from memhint.objects.domain import DomainObservation
from memhint.planner.dedup import AutoInput, DedupPlan, MergeProgress, as_before, plan_dedup
from memhint.planner.dedup_auto import pressed
from memhint.planner.dedup_breaks import next_breaks
from memhint.planner.dedup_pace import next_pace
from memhint.planner.dedup_partitions import apart
from memhint.planner.dedup_pause import next_pauses
from memhint.planner.dedup_settings import MergeSettings
from memhint.planner.host_cycle import HostCycle
from memhint.planner.nodes import nodes_of
from memhint.planner.state import PlannerState


def next_dedup(cycle: HostCycle, state: PlannerState) -> tuple[DedupPlan, PlannerState]:
    """The plan, and the state with what is remembered of merging in place of what was."""
    host, domains, settings = cycle.host, cycle.domains, cycle.settings.of(MergeSettings)
    wanted = pressed(settings.auto) if cycle.relief.dedup else settings.auto
    auto = AutoInput(cycle.estimated, host.ksm, state.dedup_auto, cycle.now, wanted)
    breaks = next_breaks(state.dedup_breaks, host, domains, cycle.now, settings.breaks)
    pauses = next_pauses(state.dedup_pauses, state.dedup_turn.entered, domains, cycle.now)
    progress = MergeProgress(state.dedup_turn, breaks, settings.await_looks, pauses)
    keeps = apart(host.ksm, empty_only=settings.empty_only, empty_across=settings.empty_across)
    dedup = plan_dedup(
        domains, cycle.policies, state.dedup_project, settings.cross_tenant, nodes_of(host), auto, progress, keeps
    )
    pace, pace_state = next_pace(state.dedup_pace, host.ksm, _unmerged(domains, dedup), cycle.idle, settings.pace)
    dedup = replace(dedup, pace=pace)
    if cycle.missing is not None:
        held = as_before(dedup, cycle.policies, state.dedup_auto, cycle.missing)
        return held, replace(state, dedup_auto=held.auto, dedup_breaks=breaks, dedup_pauses=pauses)
    return dedup, replace(
        state,
        dedup_project=dedup.project,
        dedup_auto=dedup.auto,
        dedup_pace=pace_state,
        dedup_turn=dedup.turn,
        dedup_breaks=breaks,
        dedup_pauses=pauses,
    )


def _unmerged(domains: Sequence[DomainObservation], dedup: DedupPlan) -> dict[str, int]:
    """Resident bytes that are not merged, of each QEMU process that may merge."""
    return {
        one.process.instance: max(0, one.process.rss - (one.process.ksm_merging or 0))
        for one in domains
        if one.uuid in dedup.members and one.process is not None
    }
