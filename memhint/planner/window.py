"""Samples of a bounded time window, kept small however long the window is."""

from __future__ import annotations

import math
from dataclasses import dataclass

BUCKETS = 120  # a window is remembered in this many slots, each with its largest sample


@dataclass(frozen=True, slots=True)
class Window:
    """The largest sample of each slot of a window, oldest first. ``slots`` are (slot's number, largest sample)."""

    length: float
    slots: tuple[tuple[int, float], ...] = ()

    def add(self, now: float, value: float) -> Window:
        """The window with one more sample, and without what has left it."""
        width = self.length / BUCKETS
        slot = math.floor(now / width)
        kept = [entry for entry in self.slots if slot - BUCKETS < entry[0] <= slot]
        if kept and kept[-1][0] == slot:
            kept[-1] = (slot, max(kept[-1][1], value))
        else:
            kept.append((slot, value))
        return Window(self.length, tuple(kept))

    def lasting(self, length: float, now: float) -> Window:
        """The same samples in a window of another length. Each counts from the end of its slot: none leaves early."""
        if length == self.length:
            return self
        moved: dict[int, float] = {}
        for slot, value in self.slots:
            end = min(now, (slot + 1) * self.length / BUCKETS)
            into = math.floor(end * BUCKETS / length)
            moved[into] = max(value, moved.get(into, value))
        return Window(length, tuple(sorted(moved.items())))

    def moved(self, then: float, now: float) -> Window:
        """The same samples on another clock, on which it is ``now`` when it is ``then`` on this one."""
        width = self.length / BUCKETS
        by = math.floor(now / width) - math.floor(then / width)
        return Window(self.length, tuple((slot + by, value) for slot, value in self.slots))

    def peak(self) -> float:
        """The largest sample, 0 for an empty window."""
        return max((value for _, value in self.slots), default=0.0)

    def quantile(self, q: float) -> float:
        """The nearest-rank quantile of the slots' largest samples, 0 for an empty window."""
        values = sorted(value for _, value in self.slots)
        return values[max(0, math.ceil(q * len(values)) - 1)] if values else 0.0
