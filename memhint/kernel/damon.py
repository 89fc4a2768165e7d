"""DAMON, the kernel's own monitor of accesses, through sysfs: its files, and whose they are.

There is one set of kdamonds for the whole host, and making them drops what was set before. So memhint makes its own
only where there are none, and takes for its own only those that its mark names: their number, and which process each
slot was pointed at. All else is somebody else's, and is not touched.
"""

from __future__ import annotations

import errno
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

from memhint.kernel.errors import InterfaceInUse, InterfaceMissing, KernelInterfaceError, WriteRejected
from memhint.kernel.fields import number, signed_number
from memhint.kernel.guest_ram import Span
from memhint.kernel.process import read_process_file
from memhint.kernel.root import PAGE_SIZE, KernelRoot
from memhint.objects.heat import MOST_RANGES
from memhint.objects.ownership import HOST, Ledger, Mark

BASE = "sys/kernel/mm/damon/admin/kdamonds"
KNOB = "damon kdamonds"
OPERATIONS = "fvaddr"  # fixed ranges of a process's addresses
SLOTS = 256  # kdamonds that are made at once: to make more would stop those that run
_ANY = 2**32 - 1
_ANY_SIZE = 2**63 - 1
_UPDATE_US = 3_600_000_000  # of the ranges, which are fixed
_REGION = ("start", "end", "nr_accesses", "age")
_TICKS = 100  # of a second, in /proc/PID/stat
# A write that meets a kdamond at work for a moment, memhint's own too, is refused as if somebody else used DAMON.
_TRIES, _AGAIN = 25, 0.02  # seconds between two of them


@dataclass(frozen=True, slots=True)
class Pattern:
    """Which regions a scheme counts: accesses within one window, and for how many windows it has been so."""

    accesses: tuple[int, int] = (0, _ANY)
    age: tuple[int, int] = (0, _ANY)


@dataclass(frozen=True, slots=True)
class Region:
    """Addresses that DAMON takes for alike, ``end`` excluded."""

    start: int
    end: int
    accesses: int  # samples of the last window that were touched
    age: int  # windows for which it has been so


class Damon:
    """The host's kdamonds. Not for two threads at a time."""

    def __init__(
        self,
        root: KernelRoot,
        ledger: Ledger,
        host_boot: str,
        now: Callable[[], float],
        slots: int = SLOTS,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """:param host_boot: names this boot of the host; a mark of another one is void"""
        self._root = root
        self._ledger = ledger
        self._boot = host_boot
        self._now = now
        self._slots = slots
        self._sleep = sleep
        self._targets: dict[int, int] = {}  # process by slot
        self._leaving: set[int] = set()  # of them: those that could not be stopped yet
        self._held = False
        self._marked: Mark | None = None

    def acquire(self) -> None:
        """Make the kdamonds, or take up those that a predecessor left; these are stopped.

        :raises InterfaceMissing: the kernel cannot watch a process
        :raises InterfaceInUse: they are somebody else's
        :raises KernelInterfaceError: when a file cannot be read or written
        """
        there = self._root.read_int(f"{BASE}/nr_kdamonds")
        if self._held:
            if there == self._slots:
                return
            self._held = False  # somebody has made others in their place: what was watched there is watched no more
            self._forget()
        if there and not self._mine(there):
            self._stop_own(there)
            raise InterfaceInUse(self._root.path(f"{BASE}/nr_kdamonds"), f"{there} kdamonds of somebody else")
        if there:
            self._stop_all(there)
        self._mark()
        if not there:
            self._write("nr_kdamonds", str(self._slots))
        self._held = True
        self._probe()

    def release(self) -> None:
        """Stop those that are memhint's, and leave none behind.

        :raises KernelInterfaceError: when that fails; the mark stays
        """
        mark = self._ledger.get(HOST, KNOB)
        if mark is None or (self._held and mark != self._marked):
            return  # nothing is there, or a successor has taken it up
        if mark.instance == self._boot:
            there = self._root.read_int(f"{BASE}/nr_kdamonds")
            if there and self._mine(there):
                self._stop_all(there)
                self._write("nr_kdamonds", "0")
            elif there:
                self._stop_own(there)
        self._held = False
        self._forget()
        self._ledger.remove(HOST, KNOB)

    def start(
        self, pid: int, regions: Sequence[Span], window_us: int, patterns: Sequence[Pattern], *, fixed: bool = False
    ) -> int:
        """Watch ranges of a process, and count by patterns; the slot in which that is done.

        :param regions: where sampling begins: one page of each in each window
        :param fixed: they stay as they are; else DAMON divides them, in two at most, and joins them as it goes
        :raises KernelInterfaceError: InterfaceInUse where another exclusive user of DAMON runs, or no slot is left
        """
        self.acquire()
        for one in sorted(self._leaving):
            with suppress(KernelInterfaceError):
                self.stop(one)
        slot = next((one for one in range(self._slots) if one not in self._targets), None)
        if slot is None:
            raise InterfaceInUse(self._root.path(BASE), f"all {self._slots} kdamonds watch a VM")
        if self._running(slot):
            raise InterfaceInUse(self._root.path(f"{BASE}/{slot}"), "somebody else has started it")
        self._targets[slot] = pid
        try:
            self._mark()
            self._fill(slot, pid, regions, window_us, patterns, fixed=fixed)
            self._write(f"{slot}/state", "on")
        except BaseException:
            del self._targets[slot]
            raise
        return slot

    def stop(self, slot: int) -> None:
        """Stop watching.

        :raises KernelInterfaceError: when that fails; it is tried again before the next start
        """
        pid = self._targets.get(slot)
        if pid is None:
            return
        self._leaving.add(slot)
        try:
            if self._running(slot) and self._target(slot) == pid:
                self._write(f"{slot}/state", "off")
                self._write(f"{slot}/contexts/nr_contexts", "0")  # with all that was kept of it
        except InterfaceMissing:
            self._forget(slot)  # it is there no more
            raise
        self._forget(slot)

    def counted(self, slot: int) -> tuple[int, ...] | None:
        """Bytes by pattern, summed over all windows since the start; None once the process has ended.

        Waits for the end of a window.

        :raises InterfaceInUse: somebody else has taken the slot
        :raises KernelInterfaceError: when it cannot be read
        """
        pid = self._targets.get(slot)
        if pid is None or self._target(slot) != pid:
            raise InterfaceInUse(self._root.path(f"{BASE}/{slot}"), "somebody else has pointed it elsewhere")
        if not self._running(slot):
            return None
        self._write(f"{slot}/state", "update_schemes_stats")
        schemes = f"{BASE}/{slot}/contexts/0/schemes"
        count = self._root.read_int(f"{schemes}/nr_schemes")
        return tuple(self._root.read_int(f"{schemes}/{one}/stats/sz_tried") for one in range(count))

    def tells_regions(self, slot: int) -> bool:
        """Whether the kernel says which regions a scheme found (Linux 6.2)."""
        return self._root.exists(self._tried(slot))

    def regions(self, slot: int) -> tuple[Region, ...]:
        """Every region as of the last window, by address. Waits for the end of a window.

        It takes two or three windows more, in which nobody else can ask, where a scheme of this slot finds no region:
        the kernel gives up waiting for it after two. What the kernel keeps of an answer goes with the next one, or with
        `stop`: to have it cleared would take a window, too.

        :raises InterfaceInUse: somebody else has taken the slot, or asks DAMON for something at this moment
        :raises InterfaceMissing: before Linux 6.2, or when the process has ended
        :raises KernelInterfaceError: when they cannot be read
        """
        if self._targets.get(slot) is None or self._target(slot) != self._targets[slot]:
            raise InterfaceInUse(self._root.path(f"{BASE}/{slot}"), "somebody else has pointed it elsewhere")
        tried = self._tried(slot)
        if not self._running(slot) or not self._root.exists(tried):
            raise InterfaceMissing(self._root.path(tried), "not there")
        self._write(f"{slot}/state", "update_schemes_tried_regions")
        names = self._root.directories(tried)[:MOST_RANGES]
        numbers = self._root.read_ints(tried, (f"{name}/{field}" for name in names for field in _REGION))
        found = (Region(*numbers[at : at + len(_REGION)]) for at in range(0, len(numbers), len(_REGION)))
        return tuple(sorted(found, key=lambda one: one.start))

    def _tried(self, slot: int) -> str:
        return f"{BASE}/{slot}/contexts/0/schemes/0/tried_regions"  # the first scheme takes every region

    def cpu(self, slot: int) -> float | None:
        """CPU seconds that the slot's kernel thread took; None once it has ended, as it does with the process.

        :raises KernelInterfaceError: when they cannot be read
        """
        path = f"{BASE}/{slot}/pid"
        pid = signed_number(self._root.read_text(path).strip(), self._root.path(path))
        if pid <= 0:
            return None
        words = read_process_file(self._root, pid, "stat").rpartition(")")[2].split()
        if len(words) < 13:
            raise InterfaceMissing(self._root.path(f"proc/{pid}/stat"), "no CPU times")
        # utime and stime, fields 14 and 15: the state, field 3, is the first one behind the name
        return sum(number(word, self._root.path(f"proc/{pid}/stat")) for word in words[11:13]) / _TICKS

    def _probe(self) -> None:
        path = "0/contexts/nr_contexts"
        self._write(path, "1")
        known = self._root.read_words(f"{BASE}/0/contexts/0/avail_operations")
        if OPERATIONS not in known:
            self.release()
            raise InterfaceMissing(self._root.path(f"{BASE}/0/contexts/0/avail_operations"), f"no {OPERATIONS}")

    def _fill(
        self,
        slot: int,
        pid: int,
        regions: Sequence[Span],
        window_us: int,
        patterns: Sequence[Pattern],
        *,
        fixed: bool,
    ) -> None:
        context = f"{slot}/contexts/0"
        self._write(f"{slot}/contexts/nr_contexts", "0")
        self._write(f"{slot}/contexts/nr_contexts", "1")
        self._write(f"{context}/operations", OPERATIONS)
        intervals = f"{context}/monitoring_attrs/intervals"
        # One sample in each window says whether a page was touched within it: what is counted is a share of pages.
        self._write(f"{intervals}/update_us", str(max(_UPDATE_US, window_us)))
        self._write(f"{intervals}/aggr_us", str(window_us))
        self._write(f"{intervals}/sample_us", str(window_us))
        bounds = f"{context}/monitoring_attrs/nr_regions"
        # Twice as many, so that a split never makes too many: what exceeds is merged with loss. DAMON splits only while
        # there are no more than half of them.
        self._write(f"{bounds}/max", str(2 * max(3, len(regions)) - fixed))
        self._write(f"{bounds}/min", str(max(3, len(regions))))
        self._write(f"{context}/targets/nr_targets", "1")
        target = f"{context}/targets/0"
        self._write(f"{target}/pid_target", str(pid))
        self._write(f"{target}/regions/nr_regions", str(len(regions)))
        for place, region in enumerate(regions):
            self._write(f"{target}/regions/{place}/start", str(region.start))
            self._write(f"{target}/regions/{place}/end", str(region.end))
        self._write(f"{context}/schemes/nr_schemes", str(len(patterns)))
        for place, pattern in enumerate(patterns):
            scheme = f"{context}/schemes/{place}"
            self._write(f"{scheme}/action", "stat")
            self._range(f"{scheme}/access_pattern/sz", (0, _ANY_SIZE))
            self._range(f"{scheme}/access_pattern/nr_accesses", pattern.accesses)
            self._range(f"{scheme}/access_pattern/age", pattern.age)

    def _range(self, path: str, bounds: tuple[int, int]) -> None:
        self._write(f"{path}/min", str(bounds[0]))
        self._write(f"{path}/max", str(bounds[1]))

    def _mark(self) -> None:
        slots = " ".join(f"{slot}:{pid}" for slot, pid in sorted(self._targets.items()))
        self._marked = Mark(HOST, KNOB, "0", f"{self._slots} {slots}".strip(), self._boot, self._now())
        self._ledger.put(self._marked)

    def _made(self, there: int) -> Sequence[str] | None:
        """What was watched in the slots of so many kdamonds, as the mark has it; None where memhint made no such."""
        mark = self._ledger.get(HOST, KNOB)
        if mark is None or mark.instance != self._boot:
            return None
        made, *slots = mark.after.split()
        return slots if made == str(there) else None

    def _mine(self, there: int) -> bool:
        slots = self._made(there)
        return slots is not None and all(f"{one}:{self._target(one)}" in slots for one in self._at_work(there))

    def _stop_all(self, there: int) -> None:
        for slot in self._at_work(there):
            self._write(f"{slot}/state", "off")
        self._forget()

    def _stop_own(self, there: int) -> None:
        """Stop those that are memhint's, among others of somebody else."""
        slots = self._made(there)
        if slots is None:
            return
        for slot in self._at_work(there):
            if f"{slot}:{self._target(slot)}" in slots:
                self._write(f"{slot}/state", "off")

    def _at_work(self, there: int) -> Iterator[int]:
        return (slot for slot in range(there) if self._running(slot))

    def _forget(self, slot: int | None = None) -> None:
        """Count a slot as free, or all."""
        for one in [slot] if slot is not None else list(self._targets):
            self._targets.pop(one, None)
            self._leaving.discard(one)

    def _running(self, slot: int) -> bool:
        return self._root.read_text(f"{BASE}/{slot}/state").strip() == "on"

    def _target(self, slot: int) -> int | None:
        try:
            return self._root.read_int(f"{BASE}/{slot}/contexts/0/targets/0/pid_target")
        except InterfaceMissing:
            return None  # none was set

    def _write(self, relative: str, text: str) -> None:
        for left in reversed(range(_TRIES)):
            try:
                self._root.write_text(f"{BASE}/{relative}", text)
                return
            except WriteRejected as error:
                if not _busy(error):
                    raise
                if not left:
                    raise InterfaceInUse(error.path, "in use by somebody else, or just now at work") from error
            self._sleep(_AGAIN)


def divided(spans: Sequence[Span], count: int, page: int = PAGE_SIZE) -> tuple[Span, ...]:
    """Ranges cut into about so many pieces of equal size, of whole pages; none is larger than its share."""
    size = sum(span.size for span in spans)
    if size <= 0 or count <= 0:
        return ()
    most = max(page, -(-size // count // page) * page)
    return tuple(Span(at, min(at + most, span.end)) for span in spans for at in range(span.start, span.end, most))


def _busy(error: KernelInterfaceError) -> bool:
    cause = error.__cause__
    return isinstance(cause, OSError) and cause.errno == errno.EBUSY
