"""Hosts and the VMs that ask for a place on them, as arrays."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from memhint.sim import published

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class HostShape:
    """What every host of a fleet has. Bytes."""

    pool: int = published.HOST_MEMORY
    swap: int = published.HOST_SWAP
    other: int = published.HOST_OTHER


@dataclass(frozen=True, slots=True, eq=False)
class Fleet:
    """``hosts`` hosts alike, ``steps`` steps of ``step`` seconds, and VMs in the order of their arrival.

    A VM's footprint in a step is ``offset + scale × levels[step, row]`` bytes, rounded down and no more than its
    memory, and beside that QEMU's own ``own``. In a step of ``storms``, members of ``stormy`` use all their memory.
    In a ``sticky`` fleet nothing that a VM touched comes back before it goes: a host without any lever.
    Each ``lose_past_every`` the agent of a host starts without anything that it knew, one host after the other.
    """

    name: str
    shape: HostShape
    hosts: int
    step: float
    steps: int
    arrival: Ints  # step in which the VM asks, never falling
    departure: Ints  # step in which it goes, later than its arrival
    memory: Floats  # whole bytes, without overhead
    offset: Floats
    scale: Floats
    row: Ints
    levels: npt.NDArray[np.floating]  # (steps, rows)
    own: int = published.QEMU_OWN
    stormy: Bools = field(default_factory=lambda: np.zeros(0, dtype=bool))  # empty: none
    storms: Bools = field(default_factory=lambda: np.zeros(0, dtype=bool))  # by step; empty: never
    warm_up: int = 0  # steps that count for no mean: the fleet fills
    sticky: bool = False
    guaranteed: Bools = field(default_factory=lambda: np.zeros(0, dtype=bool))  # by VM, its class; empty: none
    lose_past_every: float = 0.0  # seconds; 0: never

    @property
    def vms(self) -> int:
        """How many VMs ask."""
        return len(self.arrival)

    def losing(self, step: int) -> Bools:
        """The hosts whose agents start without memory in this step."""
        if not self.lose_past_every:
            return np.zeros(self.hosts, dtype=bool)
        turns = np.arange(self.hosts) / self.hosts
        before, now = (np.floor(at * self.step / self.lose_past_every + turns) for at in (step - 1, step))
        return (now > before) & (step > 0)

    def course(self, vm: int) -> Floats:
        """A VM's footprint in each step in which it runs: those after it came, before the one in which it goes."""
        begin, end = self.arrival[vm] + 1, min(self.departure[vm], self.steps)
        levels = self.levels[begin:end, self.row[vm]]
        memory = self.memory[vm]
        use: Floats = np.minimum(np.floor(self.offset[vm] + self.scale[vm] * levels), memory)
        if self.storms.size and self.stormy[vm]:
            use = np.where(self.storms[begin:end], memory, use)
        use = use + self.own
        return np.maximum.accumulate(use) if self.sticky else use
