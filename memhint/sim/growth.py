"""The growth table that the controllers of a simulated fleet have learnt when it ends."""

from __future__ import annotations

import math

from memhint.planner.growth import DAY, HORIZON, HOUR, GrowthTable, Tally, course_of, table_of, tally_of, told_by
from memhint.sim.fleet import Fleet

KEPT = 30 * DAY  # seconds of history that a store has of each VM


def learn(fleet: Fleet, overhead: int, *, version: int = 1) -> GrowthTable:
    """What the VMs tell that are there at the end, by the largest footprint of each hour, as a store has it.

    Hosts have them by turns: who admits, and whom, is no matter of what VMs use.
    """
    wide = max(1, round(HOUR / fleet.step))
    hosts: list[list[int]] = [[] for _ in range(fleet.hosts)]
    there = (vm for vm in range(fleet.vms) if fleet.departure[vm] >= fleet.steps)
    for turn, vm in enumerate(there):
        hosts[turn % fleet.hosts].append(vm)
    return table_of(version, (_tally(fleet, vms, overhead, wide) for vms in hosts))


def _tally(fleet: Fleet, vms: list[int], overhead: int, wide: int) -> Tally:
    told = []
    for vm in vms:
        course = fleet.course(vm)
        if course.size * fleet.step <= HORIZON:
            continue
        assigned = int(fleet.memory[vm]) + overhead
        hours = [int(course[begin : begin + wide].max()) for begin in range(0, course.size, wide)]
        first = max(0, len(hours) - math.ceil(KEPT / (wide * fleet.step)))
        points = [(at * wide * fleet.step, use, max(assigned, use)) for at, use in enumerate(hours[first:])]
        told.append(told_by(course_of(points, KEPT)))
    return tally_of(told)
