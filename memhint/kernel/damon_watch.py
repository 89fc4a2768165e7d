"""Active memory by DAMON: one page of each region is watched for a window, so touched pages are counted by sampling.

A window as long as the shortest age makes the share of touched samples an estimate of the memory that was touched
within it, without bias and of a known error. How long a region's samples have not been touched gives the longer ages:
there a region with single pages in use counts as in use. DAMON looks at the page tables of KVM, too (by mmu notifiers).

DAMON answers at the end of a window only, one question at a time of whomever on the host. So it is asked shortly before
that, and what a reading takes is asked at the ends of several windows: nobody else is kept from asking meanwhile.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from math import ceil, sqrt

from memhint.kernel.damon import Damon, Pattern, Region, divided
from memhint.kernel.errors import InterfaceInUse, InterfaceMissing, KernelInterfaceError, ProcessGone
from memhint.kernel.guest_ram import Span, read_guest_ram
from memhint.kernel.process import process_memory
from memhint.kernel.root import PAGE_SIZE, KernelRoot
from memhint.objects.active import AGES, ActiveMemory, ActiveSource, Idle, descending
from memhint.objects.heat import Heat, HeatMap

LOG = logging.getLogger(__name__)
RANGES_EVERY = 30.0  # seconds between two readings of ranges, where they are wanted
_EARLY = 0.5  # seconds before the end of a window, as it is expected: the kernel's sleep is rather too long than short
_EARLIER = 0.2  # seconds for each window that it was too late for: before those that were asked in its place
_LATE = 0.15  # seconds before it: too late to be heard
_PATIENCE = 5  # times that it was too late, until it is asked at once and waited for
# Never there, so never touched: a scheme for what is not touched finds something. DAMON waits for one that does not.
_ABSENT = Span(PAGE_SIZE, 2 * PAGE_SIZE)


class DamonWatch:
    """One process. ``step`` does what is due: it begins, asks where a window is about to end, or says when that is.

    Where ``ranges`` are wanted, longer ages are those of the ranges, and not counted by DAMON: it could not say both
    without waiting.
    """

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
        self._own = self._kernel = 0.0
        self._size = self._strata = self._other = 0
        self._last: tuple[int, ...] = ()
        self._ended = 0.0  # when a window ended, of those that were waited for
        self._late = 0
        self._by_ranges = self._told = self._no_ranges = False
        self._older: tuple[Idle, ...] = ()
        self._due = 0.0
        self.cpu = 0.0  # seconds, all in all: of the kernel's thread, and of this one
        self.newest: ActiveMemory | None = None
        self.ranges = self.with_heat = False
        self.range_reads = 0
        self.heat: HeatMap | None = None

    def step(self, now: float) -> float:
        """Begin, or ask what is to be asked at the end of this window; when to come again.

        :param now: monotonic seconds
        :raises KernelInterfaceError: InterfaceInUse where DAMON is somebody else's
        """
        began = time.thread_time()
        try:
            if self._slot is not None and self._by_ranges != (self.ranges and not self._no_ranges):
                self.close()
            if self._slot is None:
                self._start()
            elif (early := self._early(now)) > 0:
                return now + early
            elif self.with_heat and self._by_ranges and not self._told:
                self._read_ranges(self._slot)
            else:
                self._read(self._slot)
            return self._due
        finally:
            self._own += time.thread_time() - began

    def close(self) -> None:
        """Stop watching.

        :raises KernelInterfaceError: when that fails
        """
        slot, self._slot = self._slot, None
        self._own, self._kernel = self._own + self._kernel, 0.0
        if slot is not None:
            self._damon.stop(slot)

    def _start(self) -> None:
        ram = read_guest_ram(self._root, self._pid)
        regions = divided(ram.spans, self._regions)
        self._by_ranges = self.ranges and not self._no_ranges
        if not regions:
            raise InterfaceMissing(self._root.path(f"proc/{self._pid}/smaps"), "no guest memory of its own")
        self._size, self._strata = ram.size, len(regions)
        self._other = process_memory(self._root, self._pid).rss - ram.resident
        untouched = Pattern(accesses=(0, 0))
        # A region's first idle window is age 0, or 1 right after the start: one more than needed is waited for.
        older = [Pattern(accesses=(0, 0), age=(ceil(age / self._window), 2**32 - 1)) for age in self._ages[1:]]
        window = int(self._window * 1e6)
        if self._by_ranges:
            # each range that is read costs, and of divided ones there are up to twice as many
            self._slot = self._damon.start(self._pid, (_ABSENT, *regions), window, (Pattern(), untouched), fixed=True)
            if not self._damon.tells_regions(self._slot):
                self.close()
                self._by_ranges, self._no_ranges = False, True
        if not self._by_ranges:
            self._slot = self._damon.start(self._pid, regions, window, (Pattern(), untouched, *older))
        self._began = self._ended = self._clock()
        self._last, self._late, self._told, self._older = (), 0, False, ()
        self._due = self._end_of(max(1, round(self._rest() / self._window)))

    def _rest(self) -> float:
        """Seconds from one reading to the next."""
        return min(self._interval, max(RANGES_EVERY, self._window)) if self._by_ranges else self._interval

    def _end_of(self, windows: int) -> float:
        """Shortly before so many windows have ended."""
        return self._ended + windows * self._window - _EARLY

    def _early(self, now: float) -> float:
        """Seconds until DAMON is to be asked; 0: now."""
        left = self._window - (now - self._ended) % self._window
        if _LATE <= left <= self._before_end() + 0.05 or self._late >= _PATIENCE:
            return 0.0
        if now >= self._due:
            self._late += 1  # whoever calls had something else to do
        early = self._before_end()
        wait = left - early if left > early else left + self._window - early
        self._due = now + wait
        return wait

    def _before_end(self) -> float:
        """How many seconds before the end of a window it is asked."""
        return min(_EARLY + self._late * _EARLIER, self._window / 2)

    def _answered(self, windows: int) -> None:
        """A window has ended just now; after so many the next question is due."""
        self._ended, self._late = self._clock(), 0
        self._due = self._end_of(windows)

    def _read(self, slot: int) -> None:
        counted = self._damon.counted(slot)
        cpu = self._damon.cpu(slot)
        if counted is None or cpu is None:
            self._slot = None
            self._damon.stop(slot)
            raise ProcessGone(self._root.path(f"proc/{self._pid}"), "DAMON has stopped watching it")
        windows = max(1, round(self._rest() / self._window))
        self._answered(max(1, windows - 1) if self._by_ranges else windows)
        self._told = False
        at, now = self._wall(), self._ended
        self._kernel = cpu
        self.cpu = self._own + cpu
        if len(counted) != (2 if self._by_ranges else len(self._ages) + 1):
            raise InterfaceInUse(self._root.path(f"proc/{self._pid}"), "somebody else has DAMON count something else")
        before = self._last or (0,) * len(counted)
        seen = [new - old for new, old in zip(counted, before, strict=True)]
        if seen[0] <= 0:
            return  # no window has ended since
        self._last = counted
        resident = self._resident()
        watched = self._size + (_ABSENT.size if self._by_ranges else 0)
        ended = seen[0] / watched
        if self._by_ranges:
            seen = [int(one - ended * _ABSENT.size) for one in seen]
        lasted = now - self._began
        idle = tuple(
            Idle(age, idle_bytes(resident, self._size, part / seen[0]), at)
            for age, part in zip(self._ages, seen[1:], strict=False)
            if self._observed(age, lasted)
        )
        touched = 1.0 - min(1.0, max(0.0, seen[1] / seen[0]))
        error = int(sampling_error(touched, self._strata * ended) * self._size)
        percent = 100.0 * self.cpu / lasted if lasted > 0 else 0.0
        every = descending((*idle, *self._older))
        self.newest = ActiveMemory(at, self.source, resident, every, percent, min(error, self._size))

    def _observed(self, age: float, lasted: float) -> bool:
        return age == self._window or lasted >= age + self._window

    def _read_ranges(self, slot: int) -> None:
        """Which ranges are in use; what it was before where the kernel does not say now."""
        self._told = True
        self.range_reads += 1
        try:
            found = self._damon.regions(slot)
        except InterfaceInUse:
            found = None
        except KernelInterfaceError as error:
            LOG.debug("ranges in use of %s: %s", self._pid, error)
            found, self.heat = None, None
        self._answered(1)
        if found is None:
            return
        regions = [one for one in found if one.start >= _ABSENT.end]
        self.heat = self._warm(regions)
        at, resident, lasted = self._wall(), self._resident(), self._ended - self._began
        self._older = tuple(
            Idle(age, idle_bytes(resident, self._size, self._untouched(regions, age) / self._size), at)
            for age in self._ages[1:]
            if self._observed(age, lasted)
        )

    def _untouched(self, regions: Sequence[Region], age: float) -> int:
        least = ceil(age / self._window)
        return sum(one.end - one.start for one in regions if not one.accesses and one.age >= least)

    def _warm(self, regions: Sequence[Region]) -> HeatMap:
        # An age of 0 is one window: the region became what it is within the last.
        ranges = (
            Heat(one.start, one.end, busy=lasted, idle=0.0) if one.accesses else Heat(one.start, one.end, 0.0, lasted)
            for one, lasted in ((one, (one.age + 1) * self._window) for one in regions)
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
