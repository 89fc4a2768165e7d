"""Sees VMs wake, by what the host reads from swap and by whose memory in swap gets less.

Not by the kernel's pressure, which is of pages only that were in use when they went to swap: what rested was not. Nor
by a process's faults: KVM has its pages read by threads of the kernel, and no process counts those.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Protocol

from memhint.kernel.errors import KernelInterfaceError
from memhint.kernel.process import pid_of
from memhint.planner.wakes import Asleep, next_asleep


class Reads(Protocol):
    """What is read from swap."""

    def total(self) -> int:
        """Bytes since boot, for whomever."""

    def of(self, pid: int) -> int:
        """Bytes that a process has in swap."""


class WakeWatch:
    """Of the VMs that it is told of. While the host reads nothing from swap, a look costs one file."""

    def __init__(self, reads: Reads, clock: Callable[[], float]) -> None:
        self._reads = reads
        self._clock = clock
        self._known: dict[str, Asleep] = {}
        self._total: int | None = None

    def want(self, processes: Mapping[str, tuple[int, int]]) -> None:
        """Look at these from now on: bytes resident and in swap, by `ProcessMemory.instance`.

        :raises KernelInterfaceError: when the kernel does not count what it reads
        """
        read, now = self._reads.total(), self._clock()
        self._known = {
            instance: self._known.get(instance) or Asleep(rss + swap, swap, read, now)
            for instance, (rss, swap) in processes.items()
        }

    def look(self) -> list[str]:
        """Who woke since the last look, or within the second before.

        :raises KernelInterfaceError: when the kernel does not count what it reads
        """
        total, now = self._reads.total(), self._clock()
        if total == self._total:
            return []
        self._total = total
        found = []
        for instance, one in self._known.items():
            with suppress(KernelInterfaceError):  # it has ended: the next cycle will know
                swap = self._reads.of(pid_of(instance))
                self._known[instance], woke = next_asleep(one, swap, total, now)
                if woke:
                    found.append(instance)
        return found
