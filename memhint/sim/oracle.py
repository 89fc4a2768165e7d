"""The clairvoyant bound: a VM is admitted where all that will run beside it, and itself, never exceed the host.

It knows each VM's future and its departure, and no planner can do better by admitting more at once. It is not the best
packing: VMs are placed in the order in which they come, and none is moved.
"""

from __future__ import annotations

import numpy as np

from memhint.sim.fleet import Fleet, Floats


class Future:
    """What the VMs of each host will use in each step to come."""

    def __init__(self, fleet: Fleet, usable: int) -> None:
        """:param usable: bytes that the VMs of a host may use together."""
        self._fleet, self._usable = fleet, float(usable)
        self._load = np.zeros((fleet.hosts, fleet.steps))

    def room(self, vm: int, course: Floats) -> Floats:
        """What each host has left at the tightest moment of a VM that comes now; below 0 where it does not fit."""
        begin = self._fleet.arrival[vm] + 1
        if not course.size:  # gone before it ran
            return np.full(self._fleet.hosts, self._usable)
        room: Floats = self._usable - (self._load[:, begin : begin + course.size] + course).max(axis=1)
        return room

    def take(self, vm: int, host: int, course: Floats) -> None:
        """A VM runs on a host until it goes."""
        begin = self._fleet.arrival[vm] + 1
        self._load[host, begin : begin + course.size] += course
