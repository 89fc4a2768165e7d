"""How many hosts a policy needs for the same VMs: what overcommitment is worth, whatever the sizes of the VMs."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from memhint.planner.settings import PlannerSettings
from memhint.sim.engine import SimulationResult, Strategy, simulate
from memhint.sim.fleet import Fleet
from memhint.sim.policy import Policy

PLACED = 0.98  # of the VMs that ask, and of their memory


def needed(
    fleet: Fleet,
    policy: Policy,
    settings: PlannerSettings,
    *,
    strategy: Strategy = Strategy.MOST_HEADROOM,
    groups: bool = False,
    progress: Callable[[int], None] = lambda step: None,
) -> SimulationResult:
    """The outcome on the fewest hosts that place `PLACED` of a fleet's VMs, found by halving.

    A fleet with a host more may place a little less by chance, so fewer may do by chance, too. VMs that no host could
    take by flavors are not counted, or no number would do.

    :param progress: called with a number of steps, less than the fleet has, that says about how much is done
    """
    span = 0

    def tried(hosts: int) -> SimulationResult:
        nonlocal span
        span += 1
        done = round(fleet.steps * (1 - 0.7**span))
        progress(done)
        return simulate(replace(fleet, hosts=hosts), policy, settings, strategy=strategy, groups=groups)

    most = fleet.hosts
    found = tried(most)
    least = 0
    while found.placed_share < PLACED:
        if most >= fleet.vms:
            return found  # a host for each, and still not: it is no matter of hosts
        least, most = most, min(fleet.vms, math.ceil(most * 1.5))
        found = tried(most)
    while most - least > 1:
        # All policies begin at the fleet's own number, and most need about half of it or more.
        middle = (least + most) // 2
        outcome = tried(middle)
        if outcome.placed_share >= PLACED:
            most, found = middle, outcome
        else:
            least = middle
    return found
