"""The planner's windows for many hosts or VMs at once: the same slots, the same values."""

from __future__ import annotations

import math
from collections import deque

import numpy as np

from memhint.planner.past import SLOTS, slot_of
from memhint.planner.window import BUCKETS
from memhint.sim.fleet import Bools, Floats, Ints


class HostWindow:
    """`memhint.planner.window.Window` of every host: the largest sample of each slot."""

    def __init__(self, length: float) -> None:
        self._width = length / BUCKETS
        self._slots: deque[tuple[int, Floats]] = deque()
        self._holes = False  # whether a slot may have hosts without a sample: NaN

    def add(self, now: float, values: Floats) -> None:
        """One more sample of every host, and nothing of what has left the window."""
        slot = math.floor(now / self._width)
        while self._slots and self._slots[0][0] <= slot - BUCKETS:
            self._slots.popleft()
        if self._slots and self._slots[-1][0] == slot:
            np.fmax(self._slots[-1][1], values, out=self._slots[-1][1])
        else:
            self._slots.append((slot, values.copy()))

    def peak(self) -> Floats:
        """The largest sample of each host, one 0 for an empty window."""
        if not self._slots:
            return np.zeros(1)
        highest: Floats = np.fmax.reduce([values for _, values in self._slots])
        return np.nan_to_num(highest) if self._holes else highest

    def quantile(self, q: float) -> Floats:
        """The nearest-rank quantile of each host's slots, one 0 for an empty window."""
        if not self._slots:
            return np.zeros(1)
        if self._holes:
            return self._with_holes(q)
        rank = max(0, math.ceil(q * len(self._slots)) - 1)
        ranked: Floats = np.sort([values for _, values in self._slots], axis=0)[rank]
        return ranked

    def forget(self, hosts: Bools) -> None:
        """These hosts have had no sample yet."""
        self._holes = True
        for _, values in self._slots:
            values[hosts] = np.nan

    def _with_holes(self, q: float) -> Floats:
        ranked = np.sort([values for _, values in self._slots], axis=0)  # NaN is last
        counts = (~np.isnan(ranked)).sum(axis=0)
        ranks = np.maximum(0, np.ceil(q * counts).astype(np.int64) - 1)
        found: Floats = np.nan_to_num(np.take_along_axis(ranked, ranks[None, :], axis=0)[0])
        return found


class VmSlots:
    """`Past.slots` of every VM: the largest footprint of each slot of a forecast's window.

    VMs share the slots' borders, so all of them move on at once. With ``keep``, the largest so many of the window are
    known at a cost that does not depend on its length: slots are kept in blocks of a window's length, and the largest
    of the window are among those of the rest of the former block and those of the present block so far (van Herk,
    1992).
    """

    def __init__(self, window: float, keep: int = 0) -> None:
        self.count = 0
        self._window = window
        self._newest: int | None = None
        self._ring = np.zeros((SLOTS, 0))  # by slot number modulo SLOTS; 0 before a VM's first
        self._first = np.zeros(0, dtype=np.int64)  # slot in which each VM was first seen; -1 before it
        self._rest = np.zeros((SLOTS + 1, keep, 0))  # largest of the former block from each place on
        self._so_far = np.zeros((keep, 0))  # largest of the present block, without the newest slot

    def append(self, count: int) -> None:
        """``count`` more VMs behind those there are, not seen yet."""
        need = self.count + count
        room = self._first.size
        if need > room:
            more = max(need, 2 * room, 64) - room
            self._ring = np.pad(self._ring, ((0, 0), (0, more)))
            self._first = np.pad(self._first, (0, more))
            self._rest = np.pad(self._rest, ((0, 0), (0, 0), (0, more)))
            self._so_far = np.pad(self._so_far, ((0, 0), (0, more)))
        new = slice(self.count, need)
        self._ring[:, new] = 0.0
        self._first[new] = -1
        self._rest[:, :, new] = 0.0
        self._so_far[:, new] = 0.0
        self.count = need

    def move(self, source: Ints, target: Ints, count: int) -> None:
        """VMs of ``source`` take the places ``target``; ``count`` are left."""
        self._ring[:, target] = self._ring[:, source]
        self._first[target] = self._first[source]
        self._rest[:, :, target] = self._rest[:, :, source]
        self._so_far[:, target] = self._so_far[:, source]
        self.count = count

    def forget(self, vms: Bools) -> None:
        """These VMs have not been seen yet."""
        there = np.flatnonzero(vms)
        self._ring[:, there] = 0.0
        self._first[there] = -1
        self._rest[:, :, there] = 0.0
        self._so_far[:, there] = 0.0

    def add(self, now: float, values: Floats) -> None:
        """One more sample of every VM."""
        slot = slot_of(now, self._window)
        if self._newest is None:
            self._newest = slot
        while self._newest < slot:
            self._next()
            # A slot without a look repeats the one before it.
            self._ring[self._newest % SLOTS] = self._ring[(self._newest - 1) % SLOTS] if self._newest < slot else 0.0
        present = self._ring[slot % SLOTS, : self.count]
        np.maximum(present, values, out=present)
        first = self._first[: self.count]
        first[first < 0] = slot

    def lengths(self) -> Ints:
        """How many slots each VM has."""
        assert self._newest is not None
        return np.minimum(SLOTS, self._newest - self._first[: self.count] + 1)

    def slot(self, age: int) -> Floats:
        """The slot that is ``age`` before the newest; 0 for VMs that were not there."""
        assert self._newest is not None
        return self._ring[(self._newest - age) % SLOTS, : self.count]

    def highest(self, vms: Ints) -> Floats:
        """The largest slot of some VMs."""
        highest: Floats = self._ring[:, vms].max(axis=0, initial=0.0)
        return highest

    def quantile(self, q: float) -> Floats:
        """The nearest-rank quantile of each VM's slots. ``keep`` must be `kept_for` of the same ``q``."""
        assert self._newest is not None
        place, used = self._newest % SLOTS, slice(0, self.count)
        largest = _with(list(self._so_far[:, used]), self._ring[place, used])
        for values in self._rest[place + 1][:, used]:
            largest = _with(largest, values)
        lengths = self.lengths()
        from_top = lengths - np.maximum(1, np.ceil(q * lengths).astype(np.int64))
        return np.choose(from_top, largest) if self.count else np.zeros(0)

    def _next(self) -> None:
        assert self._newest is not None
        place = self._newest % SLOTS
        self._newest += 1
        if not len(self._so_far):
            return
        if place < SLOTS - 1:
            self._so_far[:] = _with(list(self._so_far), self._ring[place])
        else:
            self._rest[SLOTS] = 0.0
            for begin in range(SLOTS - 1, -1, -1):
                self._rest[begin] = _with(list(self._rest[begin + 1]), self._ring[begin])
            self._so_far[:] = 0.0


def kept_for(q: float) -> int:
    """How many of the largest slots a nearest-rank quantile may ask for."""
    return max(length - max(1, math.ceil(q * length)) + 1 for length in range(1, SLOTS + 1))


def _with(largest: list[Floats], values: Floats) -> list[Floats]:
    """The largest, highest first, after one more value."""
    found = []
    for former in largest:
        found.append(np.maximum(former, values))
        values = np.minimum(former, values)
    return found
