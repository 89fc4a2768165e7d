"""Active memory by DAMON: one page of each region is watched for a window, so touched pages are counted by sampling.

A window as long as the shortest age makes the share of touched samples an estimate of the memory that was touched
within it, without bias and of a known error. How long a region's samples have not been touched gives the longer ages:
there a region with single pages in use counts as in use. DAMON looks at the page tables of KVM, too (by mmu notifiers).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from math import ceil, sqrt

from memhint.kernel.damon import Damon, Pattern, divided
from memhint.kernel.errors import InterfaceInUse, InterfaceMissing, KernelInterfaceError, ProcessGone
from memhint.kernel.guest_ram import read_guest_ram
from memhint.kernel.process import process_memory
from memhint.kernel.root import KernelRoot
from memhint.objects.active import AGES, ActiveMemory, ActiveSource, Idle, descending
from memhint.objects.heat import Heat, HeatMap

LOG = logging.getLogger(__name__)


class DamonWatch:
    """One process. ``step`` does what is due; a reading waits for the end of a window."""

    source = ActiveSource.DAMON

    def __init__(
        self,
        root: KernelRoot,
        damon: Damon,
        pid: int,
        interval: float,
        *,
        regions: int,
        ages: Sequence[float] = AGES,
        wall: Callable[[], float] = time.time,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """:param interval: seconds between two readings
        :param regions: of which one page each is sampled in each window
        """
        self._root = root
        self._damon = damon
        self._pid = pid
        self._ages = sorted(ages)
        self._window = self._ages[0]
        self._interval = max(interval, self._window)
        self._regions = regions
        self._wall = wall
        self._clock = clock
        self._slot: int | None = None
        self._began = 0.0
        self._own = 0.0
        self._size = self._strata = self._other = 0
        self._last: tuple[int, ...] = ()
        self.cpu = 0.0  # seconds, all in all: of the kernel's thread, and of this one
        self.newest: ActiveMemory | None = None
        self.with_heat = False
        self.heat: HeatMap | None = None

    def step(self, now: float) -> float:
        """Begin, or read; when to come again.

        :param now: monotonic seconds
        :raises KernelInterfaceError: InterfaceInUse where DAMON is somebody else's
        """
        began = time.thread_time()
        try:
            if self._slot is None:
                self._start(now)
            else:
                self._read(self._slot)
        finally:
            self._own += time.thread_time() - began
        return now + self._interval

    def close(self) -> None:
        """Stop watching.

        :raises KernelInterfaceError: when that fails
        """
        slot, self._slot = self._slot, None
        if slot is not None:
            self._damon.stop(slot)

    def _start(self, now: float) -> None:
        ram = read_guest_ram(self._root, self._pid)
        regions = divided(ram.spans, self._regions)
        if not regions:
            raise InterfaceMissing(self._root.path(f"proc/{self._pid}/smaps"), "no guest memory of its own")
        self._size, self._strata = ram.size, len(regions)
        self._other = process_memory(self._root, self._pid).rss - ram.resident
        first = Pattern(accesses=(0, 0))
        # A region's first idle window is age 0, or 1 right after the start: one more than needed is waited for.
        older = [Pattern(accesses=(0, 0), age=(ceil(age / self._window), 2**32 - 1)) for age in self._ages[1:]]
        self._slot = self._damon.start(self._pid, regions, int(self._window * 1e6), (Pattern(), first, *older))
        self._began, self._last = now, ()

    def _read(self, slot: int) -> None:
        counted = self._damon.counted(slot)
        cpu = self._damon.cpu(slot)
        if counted is None or cpu is None:
            self._slot = None
            self._damon.stop(slot)
            raise ProcessGone(self._root.path(f"proc/{self._pid}"), "DAMON has stopped watching it")
        at, now = self._wall(), self._clock()
        self.cpu = self._own + cpu
        before = self._last or (0,) * len(counted)
        seen = [new - old for new, old in zip(counted, before, strict=True)]
        if len(seen) != len(self._ages) + 1 or seen[0] <= 0:
            return  # no window has ended since
        self._last = counted
        resident = self._resident()
        windows = seen[0] / self._size
        lasted = now - self._began
        idle = tuple(
            Idle(age, idle_bytes(resident, self._size, part / seen[0]), at)
            for age, part in zip(self._ages, seen[1:], strict=True)
            if age == self._window or lasted >= age + self._window
        )
        touched = 1.0 - min(1.0, seen[1] / seen[0])
        error = int(sampling_error(touched, self._strata * windows) * self._size)
        percent = 100.0 * self.cpu / lasted if lasted > 0 else 0.0
        self.newest = ActiveMemory(at, self.source, resident, descending(idle), percent, min(error, self._size))
        if self.with_heat:
            self.heat = self._warm(slot)

    def _warm(self, slot: int) -> HeatMap | None:
        """Which ranges are in use; what it was before where the kernel does not say now."""
        try:
            found = self._damon.regions(slot)
        except InterfaceInUse:
            return self.heat
        except KernelInterfaceError as error:
            LOG.debug("ranges in use of %s: %s", self._pid, error)
            return None
        # An age of 0 is one window: the region became what it is within the last.
        ranges = (
            Heat(one.start, one.end, busy=lasted, idle=0.0) if one.accesses else Heat(one.start, one.end, 0.0, lasted)
            for one, lasted in ((one, (one.age + 1) * self._window) for one in found)
        )
        return HeatMap(self._wall(), tuple(ranges))

    def _resident(self) -> int:
        """Of guest memory, without a walk of page tables: what else QEMU holds hardly changes."""
        try:
            held = process_memory(self._root, self._pid).rss - self._other
        except KernelInterfaceError as error:
            raise ProcessGone(self._root.path(f"proc/{self._pid}"), str(error)) from error
        return min(max(0, held), self._size)


def idle_bytes(resident: int, size: int, untouched: float) -> int:
    """Resident memory that was not touched, of which share of all addresses that is known.

    Addresses without memory behind them are untouched, too; every touched one has memory.
    """
    touched = int(size * (1.0 - min(1.0, max(0.0, untouched))))
    return max(0, resident - touched)


def sampling_error(share: float, samples: float) -> float:
    """By how much a share found in so many samples may be wrong, in 95 of 100 cases.

    Samples that all agree leave it to three of them that might not have been met (the rule of three).
    """
    if samples <= 0:
        return 1.0
    return min(1.0, max(1.96 * sqrt(max(0.0, share * (1.0 - share)) / samples), 3.0 / samples))
