"""One cycle of making huge pages again: who gets them now, and what is remembered of whose were split."""

from __future__ import annotations

from dataclasses import replace

from memhint.objects.relief import Relief
from memhint.planner.host_cycle import HostCycle, Taken
from memhint.planner.state import PlannerState
from memhint.planner.thp import CollapseSettings, collapses, cpu_of, next_split, working


def next_thp(cycle: HostCycle, taken: Taken, state: PlannerState) -> tuple[Relief, PlannerState]:
    """What is asked for, with who gets huge pages again, and the state with what is remembered of that."""
    settings, elapsed = cycle.settings.of(CollapseSettings), cycle.elapsed
    known = [one for one in cycle.domains if one.uuid not in cycle.unread]
    # For the other levers a VM that works within the memory it has is idle: what it has freed it does not use.
    idle = cycle.idle - working(known, state.cpu, elapsed, cycle.host.at, settings)
    split = next_split(state.split, cycle.domains, taken.any, idle, elapsed, settings)
    # Of a VM that works, what it works with can be whole again though single pages that it frees go on being taken.
    apart = taken.in_use | {
        one.uuid for one in known if one.uuid in taken.any and (one.process is None or one.process.instance in idle)
    }
    wished = collapses(known, cycle.policies, split, apart, idle, settings, calm=cycle.calm)
    return replace(cycle.relief, thp=wished), replace(state, split=split, cpu=cpu_of(cycle.domains))
