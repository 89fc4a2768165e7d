"""The growth table of a simulated fleet, and forecasts by it."""

from __future__ import annotations

import numpy as np

from memhint.planner.growth import AGES, HORIZON, LEVELS, GrowthTable, of_variance, outlook
from memhint.sim.fleet import Fleet, Floats, Ints
from memhint.sim.twin import Vms, per_host


def learn(fleet: Fleet, overhead: int, *, version: int = 1) -> GrowthTable:
    """What became of all VMs that ask for a place in a fleet, as a history would tell that has all of them."""
    counts = np.zeros((len(AGES), len(LEVELS), len(LEVELS)), dtype=np.int64)
    begins = np.ceil(np.array(AGES) / fleet.step).astype(np.int64)
    for vm in range(fleet.vms):
        course = fleet.course(vm)
        if not course.size:
            continue
        last = (course.size - 1) * fleet.step - (0.0 if fleet.departure[vm] < fleet.steps else HORIZON)
        rows = np.flatnonzero(np.array(AGES) <= last)
        assigned = max(fleet.memory[vm] + overhead, course.max())
        touched = np.maximum.accumulate(course)[begins[rows]]
        counts[rows, columns(touched, assigned), columns(course.max(), assigned)] += 1
    return GrowthTable(version, tuple(tuple(tuple(map(int, cell)) for cell in row) for row in counts))


def columns(touched: Floats, assigned: Floats | float) -> Ints:
    """`memhint.planner.growth.column_of` of many VMs."""
    percent = -(-100 * np.asarray(touched, dtype=np.int64) // np.asarray(assigned, dtype=np.int64))
    found: Ints = np.minimum(len(LEVELS) - 1, np.searchsorted(LEVELS, percent))
    return found


class Growth:
    """Each VM by what became of those that were as old and had touched as much."""

    def __init__(self, table: GrowthTable, sigmas: float) -> None:
        cells = [[outlook(table, row, column) for column in range(len(LEVELS))] for row in range(len(AGES))]
        self._percent = np.array([[one.percent for one in row] for row in cells])
        self._variance = np.array([[one.variance for one in row] for row in cells])
        self._sigmas = sigmas
        self._touched = np.zeros(0)
        self._spread = np.zeros(0)  # MiB² of each VM
        self._count = 0

    def append(self, count: int) -> None:
        """``count`` more VMs, not seen yet."""
        self._touched = np.concatenate([self._touched[: self._count], np.zeros(count)])
        self._count += count

    def move(self, source: Ints, target: Ints, count: int) -> None:
        """VMs of ``source`` take the places ``target``; ``count`` are left."""
        self._touched[target] = self._touched[source]
        self._count = count

    def forecast(self, vms: Vms, now: float, hosts: int) -> Floats:
        """What each VM came to on average, within [use, assigned]."""
        self._touched = np.maximum(self._touched[: self._count], vms.use)
        rows = np.maximum(0, np.searchsorted(AGES, now - vms.born, side="right") - 1)
        places = rows, columns(self._touched, vms.assigned)
        assigned = vms.assigned.astype(np.int64)
        mib = -(-assigned // 2**20)
        self._spread = -(-mib * mib * self._variance[places] // 10_000)
        found = (assigned * self._percent[places] // 100).astype(np.float64)
        demand: Floats = np.minimum(np.maximum(found, vms.use), vms.assigned)
        return demand

    def deviation(self, vms: Vms, hosts: int) -> Floats:
        """By how much the sum of each host's VMs may miss that."""
        spread = per_host(vms, self._spread, hosts)
        return np.array([float(of_variance(int(one), self._sigmas)) for one in spread])
