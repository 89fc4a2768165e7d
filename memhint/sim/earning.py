"""What the hosts of one fleet have earned when it ends: what hosts of another fleet begin with."""

from __future__ import annotations

from dataclasses import replace

from memhint.planner.earned_ratio import Earned
from memhint.planner.settings import PlannerSettings
from memhint.sim.earned import before
from memhint.sim.engine import Run, Strategy
from memhint.sim.fleet import Fleet
from memhint.sim.needed import needed
from memhint.sim.policy import Planned


def earn(fleet: Fleet, policy: Planned, settings: PlannerSettings, strategy: Strategy) -> tuple[Earned, ...]:
    """The past of each host, on as many hosts as the fleet needs: hosts that are not full earn nothing."""
    hosts = needed(fleet, policy, settings, strategy=strategy).hosts
    run = Run(replace(fleet, hosts=hosts), policy, settings, strategy=strategy)
    for step in range(fleet.steps):
        run.step(step)
    return before(run.earned)
