"""How much of each VM's memory is in use, found out on a thread and a CPU budget of their own.

By DAMON where the kernel has it and nobody else uses it, else by accessed bits; what stands in the way is a gap.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Protocol

from memhint.kernel.errors import KernelInterfaceError, ProcessGone
from memhint.objects.active import ActiveMemory, ActiveSource
from memhint.objects.domain import ProcessMemory
from memhint.objects.gap import Gap, GapReason
from memhint.objects.heat import HeatMap
from memhint.store.errors import StoreError

LOG = logging.getLogger(__name__)
WHAT = "active"  # as a gap names it
AGAIN = 300.0  # seconds until a VM of which nothing could be read is tried again
BETTER_AGAIN = 3600.0  # seconds until a source that was tried in vain is tried again for a VM that another one watches
HEAT_SHARE = 0.25  # of the time, at most, in which ranges in use are found out: nobody else can ask DAMON meanwhile
AHEAD = 60.0  # seconds that the ranges of one VM may be newer than those of another
APART = 0.7  # seconds between the beginnings of two watches: DAMON is asked of one after another where windows end

_UNKNOWN: Mapping[str, int] = {}


class Watch(Protocol):
    """One process, watched by one source."""

    cpu: float
    newest: ActiveMemory | None
    ranges: bool
    """Whether it is to be found out which ranges are in use, where the source can; as the next step finds it."""
    with_heat: bool
    """Whether the next step may find that out."""
    range_reads: int
    """How often it was tried."""
    heat: HeatMap | None
    """As it was found out last."""

    def step(self, now: float) -> float:
        """Do what is due, and say when to come again."""

    def close(self) -> None:
        """Leave nothing behind."""


Open = Callable[[int], Watch]
"""A watch of a process, by its pid."""


@dataclass(slots=True)
class _Watched:
    """One QEMU process: its watch, when it is due, and why there is no reading."""

    instance: str
    pid: int
    watch: Watch | None = None
    source: ActiveSource | None = None  # of the watch
    better_due: float = float("-inf")  # when one that stands before it is tried again
    due: float = float("-inf")
    gap: Gap | None = field(default_factory=lambda: Gap(WHAT, GapReason.PENDING))
    size: int | None = None  # bytes that its VM was given
    rests: bool = False  # its VM does not run: all that it has would look idle


class ActiveReads:
    """The newest reading per VM. The CPU that watching takes stays below ``cpu_percent`` of one core over time."""

    def __init__(
        self,
        sources: Mapping[ActiveSource, Open],
        cpu_percent: float,
        *,
        release: Callable[[], None] = lambda: None,
        apart: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """:param sources: to be tried in this order; none: nothing is read, and that is no gap
        :param apart: seconds from the beginning of one watch to that of the next, at least
        :param release: leaves the host as it was found, once nothing is watched; raises KernelInterfaceError
        """
        self._sources = dict(sources)
        self._share = cpu_percent / 100.0
        self._release = release
        self._apart = apart
        self._clock = clock
        self._lock = threading.Lock()
        self._known: dict[str, _Watched] = {}
        self._warm: frozenset[str] = frozenset()
        self._heated: dict[str, float] = {}  # when ranges were asked for last, by VM
        self._heat_due = self._open_due = float("-inf")
        self._ended: list[Watch] = []
        self._began = clock()
        self._before = 0.0  # CPU seconds of watches that have ended
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to read in the background; a share of 0 reads nothing."""
        if self._share <= 0 or ActiveSource.DAMON not in self._sources:
            self._give_back()  # what an agent that was killed left behind
        if self._share > 0 and self._sources:
            self._thread = threading.Thread(target=self._run, name="active-reads", daemon=True)
            self._thread.start()

    def close(self, timeout: float = 0.0) -> None:
        """Stop; the thread leaves the host as it was found, and is waited for so many seconds."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(timeout)

    def want(
        self,
        processes: Mapping[str, ProcessMemory],
        sizes: Mapping[str, int] = _UNKNOWN,
        resting: Collection[str] = (),
    ) -> None:
        """The VMs that there are now, by UUID.

        :param sizes: bytes that each was given, where that is known: with others its memory is elsewhere, too
        :param resting: those of them that do not run. Of one that starts or arrives not all of its memory may be there
        """
        with self._lock:
            known, self._known = self._known, {}
            for uuid, process in processes.items():
                old, size, rests = known.pop(uuid, None), sizes.get(uuid), uuid in resting
                if old is not None and old.instance == process.instance and old.rests is rests:
                    size = size or old.size
                    if old.size in (None, size):
                        old.size = size
                        self._known[uuid] = old
                        continue
                if old is not None:
                    known[uuid] = old
                self._known[uuid] = _Watched(process.instance, process.pid, size=size, rests=rests)
                if rests:
                    self._known[uuid].gap = Gap(WHAT, GapReason.PENDING, "the VM does not run")
            self._ended += [one.watch for one in known.values() if one.watch is not None]
            self._heated = {uuid: at for uuid, at in self._heated.items() if uuid in self._known}

    def newest(self, uuid: str) -> tuple[ActiveMemory | None, Gap | None]:
        """The last reading of this VM's present process, or why there is none."""
        with self._lock:
            found = self._known.get(uuid)
            if found is None or self._thread is None:
                return None, None
            return (found.watch.newest if found.watch is not None else None), found.gap

    def heat(self, uuids: Iterable[str]) -> dict[str, HeatMap]:
        """Which ranges these VMs use, of those of which it is known. Only for those asked for last is it found out."""
        with self._lock:
            before, self._warm = self._warm, frozenset(uuids)
            found = {}
            for uuid, one in self._known.items():
                if uuid in self._warm - before and one.watch is not None:
                    one.due = float("-inf")  # it is to watch in another way from now on
                if one.watch is None or one.watch.heat is None:
                    continue
                if uuid in self._warm:
                    found[uuid] = one.watch.heat
                else:
                    one.watch.heat = None  # nobody keeps it up to date any more
            return found

    def read_next(self, now: float) -> float:
        """Do what is due for the VM that has waited longest, and say for how many seconds to rest."""
        self._close_ended()
        over = self._over(now)
        if over > 0:
            return over
        with self._lock:
            runs = [(uuid, one) for uuid, one in self._known.items() if not one.rests]
            some = [(uuid, one) for uuid, one in runs if one.watch is not None or now >= self._open_due]
            uuid, found = min(some, key=lambda item: item[1].due, default=("", None))
            watch, tried = found.watch if found is not None else None, 0
            if watch is not None:
                watch.ranges, watch.with_heat, tried = uuid in self._warm, self._may_heat(uuid, now), watch.range_reads
        if found is None:
            return min(1.0, max(0.0, self._open_due - now)) if runs else 1.0
        if found.due > now:
            return min(1.0, found.due - now)
        self._step(found, now, ranges=uuid in self._warm)
        ended = self._clock()
        if watch is None:
            self._open_due = ended + self._apart
        elif watch.range_reads != tried:
            with self._lock:
                self._heated[uuid] = ended
                self._heat_due = ended + (ended - now) * (1 / HEAT_SHARE - 1)
        return 0.0

    def _may_heat(self, uuid: str, now: float) -> bool:
        """Whether it is this one's turn: others were not asked for for about as long, at most."""
        if uuid not in self._warm or now < self._heat_due:
            return False
        watched = (
            name
            for name in self._warm
            # accessed bits do not tell ranges: whoever waited for their turn would wait for ever
            if (one := self._known.get(name)) is not None and one.watch is not None and one.source is ActiveSource.DAMON
        )
        return (
            self._heated.get(uuid, 0.0) <= min((self._heated.get(name, 0.0) for name in watched), default=0.0) + AHEAD
        )

    def _step(self, found: _Watched, now: float, *, ranges: bool) -> None:
        gap: Gap | None = None
        try:
            if found.watch is None:
                self._open(found, now, ranges=ranges)
            else:
                due = self._open_better(found, now, ranges=ranges) if now >= found.better_due else None
                found.due = found.watch.step(now) if due is None else due
        except (KernelInterfaceError, StoreError) as error:
            LOG.debug("active memory of %s: %s", found.instance, error)
            self._drop(found)
            gap = error.gap(WHAT) if isinstance(error, KernelInterfaceError) else _unmarked(error)
            found.due = now + AGAIN
        except Exception:
            found.due = now + AGAIN  # a defect: the others are not to wait for what fails each time
            raise
        if gap is None and (found.watch is None or found.watch.newest is None):
            gap = Gap(WHAT, GapReason.PENDING)
        with self._lock:
            found.gap = gap

    def _open(self, found: _Watched, now: float, *, ranges: bool) -> None:
        """The first source that can watch it.

        :raises KernelInterfaceError: what stands in the way of the last one, and in words of each
        """
        source, watch, due = self._first(self._sources.items(), found.pid, now, ranges=ranges)
        found.due, found.better_due = due, now + BETTER_AGAIN
        self._take(found, source, watch)

    def _open_better(self, found: _Watched, now: float, *, ranges: bool) -> float | None:
        """Change to a source that stands before its own, where that works by now, and say when it is due. What was read
        last stays until it is read again.

        :raises ProcessGone: when the process is
        """
        found.better_due = now + BETTER_AGAIN
        before = list(takewhile(lambda one: one[0] is not found.source, self._sources.items()))
        if not before:
            return None
        try:
            source, watch, due = self._first(before, found.pid, now, ranges=ranges)
        except ProcessGone:
            raise
        except (KernelInterfaceError, StoreError):  # without a mark none is begun; the one that there is goes on
            return None
        old = found.watch
        if old is not None:
            watch.newest = watch.newest or old.newest
        if self._take(found, source, watch) and old is not None:
            self._end(old)
        return due

    def _take(self, found: _Watched, source: ActiveSource, watch: Watch) -> bool:
        """Have it watched by this one; False where it is not to be watched any more, by whichever."""
        with self._lock:
            wanted = any(one is found for one in self._known.values())
            if wanted:
                found.watch, found.source = watch, source
            else:
                self._ended.append(watch)
        return wanted

    def _first(
        self, sources: Iterable[tuple[ActiveSource, Open]], pid: int, now: float, *, ranges: bool
    ) -> tuple[ActiveSource, Watch, float]:
        """Which of them can watch a process, its watch after a first step, and when that is due again.

        :raises KernelInterfaceError: what stands in the way of the last one, and in words of each
        """
        last: KernelInterfaceError | None = None
        for source, open_ in sources:
            watch = open_(pid)
            watch.ranges = ranges
            try:
                return source, watch, watch.step(now)
            except ProcessGone:
                raise
            except KernelInterfaceError as error:
                self._before += watch.cpu
                last = error if last is None else _both(last, error)
        assert last is not None, "there is no source"
        raise last

    def _over(self, now: float) -> float:
        """Seconds until what was spent fits the budget again."""
        with self._lock:
            spent = self._before + sum(one.watch.cpu for one in self._known.values() if one.watch is not None)
        return max(0.0, min(60.0, spent / self._share - max(0.0, now - self._began) - AGAIN))

    def _drop(self, found: _Watched) -> None:
        with self._lock:
            watch, found.watch = found.watch, None
        if watch is not None:
            self._end(watch)

    def _close_ended(self) -> None:
        with self._lock:
            ended, self._ended = self._ended, []
        for watch in ended:
            self._end(watch)

    def _end(self, watch: Watch) -> None:
        self._before += watch.cpu
        try:
            watch.close()
        except KernelInterfaceError as error:
            LOG.warning("a watch of active memory was not ended: %s", error)

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                rest = self.read_next(self._clock())
            except Exception:  # a defect here must not end the reading for good
                LOG.exception("reading active memory failed")
                rest = 60.0
            self._stop.wait(rest)
        self._leave()

    def _leave(self) -> None:
        with self._lock:
            left = [*self._ended, *(one.watch for one in self._known.values() if one.watch is not None)]
            self._known, self._ended = {}, []
        for watch in left:
            self._end(watch)
        self._give_back()

    def _give_back(self) -> None:
        try:
            self._release()
        except (KernelInterfaceError, StoreError) as error:
            LOG.warning("kdamonds were not given back; the next start does: %s", error)


def _both(first: KernelInterfaceError, second: KernelInterfaceError) -> KernelInterfaceError:
    """The first reason counts, and is said together with the second."""
    return type(first)(first.path, f"{first.detail}; {second}")


def _unmarked(error: StoreError) -> Gap:
    return Gap(WHAT, GapReason.PENDING, f"no mark can be kept: {error}")


def chosen(source: str, offered: Mapping[ActiveSource, Open]) -> dict[ActiveSource, Open]:
    """Those that an option allows, best first."""
    wanted: Sequence[ActiveSource] = {
        "auto": (ActiveSource.DAMON, ActiveSource.REFERENCED),
        "damon": (ActiveSource.DAMON,),
        "referenced": (ActiveSource.REFERENCED,),
    }.get(source, ())
    return {one: offered[one] for one in wanted}
