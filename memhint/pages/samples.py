"""Looks at the pages of the VMs, on a thread and a CPU budget of its own, and keeps what merging them would save.

To look at a GiB takes about a second of CPU. One pass over a VM is spread over as much time as the budget
demands, and one VM is looked at after the other. Hashes stay in this process; what is handed out are counts.
"""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace

from memhint.kernel.errors import KernelInterfaceError, ProcessGone
from memhint.kernel.guest_pages import GuestPages, guest_ram, read_buffer
from memhint.kernel.process import process_memory
from memhint.kernel.root import KernelRoot
from memhint.objects.estimate import DedupEstimate, FinderRound, GroupEstimate, VmEstimate
from memhint.objects.merge_ranges import RangeChoice
from memhint.pages.candidates import Candidate
from memhint.pages.finder import Finder, FinderSettings
from memhint.pages.page_pass import FREQUENT_AT_MOST, PagePass, Phase
from memhint.planner.dedup_estimate import KsmPace, PageSample, estimate, rate_for

LOG = logging.getLogger(__name__)
KEPT_AT_MOST = 65_536  # hashes, of all VMs together: 16 bytes each while a pass lasts, 8 afterwards
_WAITING_AT_MOST = 16  # passes between their two looks
IDLE = 1.0  # seconds
_AT_ONCE = 0.002  # seconds of CPU between two rests: waking up has its price, too


class PageSamples:
    """Newest sample per VM. The CPU that it takes stays below ``cpu_percent`` of one core over time."""

    def __init__(
        self,
        root: KernelRoot,
        page_size: int,
        cpu_percent: float,
        interval: float,
        settle: float,
        pace: KsmPace,
        wall: Callable[[], float] = time.time,
        clock: Callable[[], float] = time.monotonic,
        finder: FinderSettings | None = None,
    ) -> None:
        """:param interval: seconds from one sample of a VM to its next pass
        :param settle: seconds between the two looks at a page
        :param finder: it looks at all VMs of a group together, instead of the passes; ``cpu_percent`` is then its own
        """
        self._root = root
        self._page_size = page_size
        self._share = cpu_percent / 100.0
        self._interval = interval
        self._settle = settle
        self._pace = pace
        self._wall = wall
        self._clock = clock
        self._seed = secrets.randbits(64)  # so that no guest can make pages that only seem to be equal
        self._finder = Finder(root, page_size, self._seed, finder, wall) if finder is not None else None
        self._round: FinderRound | None = None
        self._frequent: set[int] = set()
        self._lock = threading.Lock()
        self._candidates: dict[str, Candidate] = {}
        self._samples: dict[str, PageSample] = {}
        self._ranges: dict[str, RangeChoice] = {}  # by the finder
        self._failed: set[str] = set()  # they could not be looked at when it was tried last
        self._due: dict[str, float] = {}
        self._newest: DedupEstimate | None = None
        self._version = 1  # of samples and candidates
        self._shown = 0  # the one that the estimate is of
        self._estimated = float("-inf")
        self._running: tuple[str, PagePass] | None = None
        self._waiting: dict[str, tuple[float, PagePass]] = {}  # by when the second look may begin
        self._buffer: memoryview | None = None  # of all passes, for one reads at a time; only while there are passes
        self._cpu = 0.0
        self._began = clock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def enabled(self) -> bool:
        """Whether anything is estimated at all."""
        return self._share > 0

    def start(self) -> None:
        """Begin to look in the background; a share of 0 looks at nothing."""
        if self.enabled:
            self._thread = threading.Thread(target=self._run, name="page-samples", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """Stop; a chunk under way is not waited for."""
        self._stop.set()

    def inherit(self, before: PageSamples) -> None:
        """Go on from what another one has found, which was closed."""
        with before._lock:
            self._seed, self._frequent = before._seed, set(before._frequent)
            self._candidates, self._samples = dict(before._candidates), dict(before._samples)
            self._due, self._newest = dict(before._due), before._newest
            self._ranges = dict(before._ranges)
            self._round = before._round
            if self._finder is not None:
                self._finder.seed = self._seed
        # Passes under way were lost with it.
        self._due = {uuid: at for uuid, at in self._due.items() if uuid in self._samples}

    def want(self, candidates: Mapping[str, Candidate]) -> None:
        """The VMs that could merge now, by UUID."""
        with self._lock:
            asked = {uuid: _who(one) for uuid, one in candidates.items()}
            if asked != {uuid: _who(one) for uuid, one in self._candidates.items()}:
                self._version += 1
            same = {
                uuid
                for uuid, one in candidates.items()
                if uuid in self._candidates and self._candidates[uuid].process.instance == one.process.instance
            }
            self._candidates = dict(candidates)
            self._samples = {uuid: kept for uuid, kept in self._samples.items() if uuid in same}
            self._ranges = {uuid: kept for uuid, kept in self._ranges.items() if uuid in same}
            # A VM that was started again is new.
            self._due = {uuid: at for uuid, at in self._due.items() if uuid in same}
            self._failed &= same

    def newest(self) -> DedupEstimate | None:
        """What is estimated; None where nothing is to be."""
        if not self.enabled:
            return None
        with self._lock:
            found = self._newest or DedupEstimate()
            waiting = tuple(uuid for uuid in self._candidates if uuid not in self._samples)
            elapsed = self._clock() - self._began
            failed = tuple(uuid for uuid in waiting if uuid in self._failed)
            return replace(found, waiting=waiting, cpu=self._cpu, elapsed=elapsed, finder=self._round, failed=failed)

    def ranges(self, uuid: str, instance: str) -> RangeChoice | None:
        """What is worth merging of a VM's process; None where the finder has not looked at it."""
        with self._lock:
            known = self._candidates.get(uuid)
            return self._ranges.get(uuid) if known is not None and known.process.instance == instance else None

    def complete(self) -> bool:
        """Whether every VM has been looked at, or could not be, and the estimate holds what was found."""
        with self._lock:
            done = all(uuid in self._samples or uuid in self._failed for uuid in self._candidates)
            return done and (self._shown == self._version or not self._samples)

    def step(self) -> float:
        """Do one small piece of work, and say how long to rest after it: CPU seconds taken over the share allowed."""
        began = time.thread_time()
        idle = not self._work(self._clock())
        while not idle and time.thread_time() - began < _AT_ONCE and not self._stop.is_set():
            idle = not self._work(self._clock())
        took = time.thread_time() - began
        with self._lock:
            self._cpu += took
        return max(took / self._share if self._share else 0.0, IDLE if idle else 0.0)

    # -- the work ----------------------------------------------------------------------------------------------------

    def _work(self, now: float) -> bool:
        """Whether there was anything to do."""
        self._drop_unwanted()
        if self._shown != self._version and (self._samples or self._newest) and now - self._estimated >= self._settle:
            self._estimate(now)
            return True
        if self._finder is not None:
            return self._find(self._finder, now)
        ready = next((uuid for uuid, (at, _) in self._waiting.items() if at <= now), None)
        if self._running is None and ready is not None:
            self._running = (ready, self._waiting.pop(ready)[1])
        if self._running is None and len(self._waiting) < _WAITING_AT_MOST:
            self._begin(now)
        if self._running is not None:
            self._go_on(*self._running, now)
            return True
        if not self._waiting:
            self._buffer = None
        return False

    def _drop_unwanted(self) -> None:
        with self._lock:
            wanted = {uuid: one.process.instance for uuid, one in self._candidates.items()}
        if self._running is not None and wanted.get(self._running[0]) != self._running[1].process.instance:
            self._running[1].close()
            self._running = None
        for uuid, (_, under_way) in list(self._waiting.items()):
            if wanted.get(uuid) != under_way.process.instance:
                under_way.close()
                del self._waiting[uuid]

    def _begin(self, now: float) -> None:
        """Start a pass over the VM that is due, if one is: one never looked at first."""
        with self._lock:
            due = [(self._due.get(uuid, float("-inf")), uuid) for uuid in self._candidates if uuid not in self._waiting]
            at, uuid = min(due, default=(float("inf"), ""))
            if at > now:
                return
            process = self._candidates[uuid].process
            self._due[uuid] = now + self._interval  # also if it fails: others come first then
            pages = sum(one.process.rss for one in self._candidates.values()) // self._page_size
        if self._buffer is None:
            self._buffer = read_buffer(self._page_size)
        try:
            found = GuestPages(self._root, process.pid, self._seed, self._page_size, buffer=self._buffer)
        except KernelInterfaceError as error:
            LOG.warning("the pages of %s cannot be looked at: %s", uuid, error)
            self._fail(uuid)
            return
        try:
            # The descriptors stay with this process. Only now is it sure that the pid is still the one that was meant.
            if process_memory(self._root, process.pid, self._page_size).instance != process.instance:
                raise ProcessGone(self._root.path(f"proc/{process.pid}"), "the pid is another process's by now")
            spans = guest_ram(self._root, process.pid)
        except KernelInterfaceError as error:
            LOG.debug("looking at %s: %s", uuid, error)
            found.close()
            self._fail(uuid)
            return
        rate = rate_for(pages, KEPT_AT_MOST)
        under_way = PagePass(process, found, spans, rate, self._page_size, self._frequent, self._wall())
        self._running = (uuid, under_way)

    def _find(self, finder: Finder, now: float) -> bool:
        """One round over the group that is due, if one is; it rests by itself."""
        with self._lock:
            due = [(self._due.get(uuid, float("-inf")), uuid) for uuid in self._candidates]
            at, first = min(due, default=(float("inf"), ""))
            if at > now:
                return False
            group = _group(first, self._candidates[first])
            members = {uuid: one for uuid, one in self._candidates.items() if _group(uuid, one) == group}
            self._due.update(dict.fromkeys(members, now + self._interval))
        found = finder.round({uuid: one.process for uuid, one in members.items()}, self._stop)
        if found is None:
            return True
        for uuid, why in found.failed.items():
            LOG.warning("the pages of %s could not be looked at: %s", uuid, why)
        with self._lock:
            self._cpu += found.round.cpu
            self._round = found.round
            self._failed.update(found.failed)
            for uuid, sample in found.samples.items():
                current = self._candidates.get(uuid)
                same = current is not None and current.process.instance == members[uuid].process.instance
                if current is not None and same and _group(uuid, current) == group:
                    self._samples[uuid] = sample
                    self._ranges[uuid] = found.ranges[uuid]
                    self._failed.discard(uuid)
            self._version += 1
        return True

    def _go_on(self, uuid: str, under_way: PagePass, now: float) -> None:
        before = under_way.phase
        try:
            after = under_way.step()
        except KernelInterfaceError as error:
            LOG.debug("looking at %s: %s", uuid, error)
            after = None
        if after is before or after is Phase.FIRST:
            return
        self._running = None
        if after is Phase.SECOND:
            self._waiting[uuid] = (now + self._settle, under_way)
            return
        under_way.close()
        if after is Phase.DONE:
            self._keep(uuid, under_way, now)
        else:
            self._fail(uuid)

    def _keep(self, uuid: str, under_way: PagePass, now: float) -> None:
        with self._lock:
            current = self._candidates.get(uuid)
            if current is None or current.process.instance != under_way.process.instance:
                return
            merged = (current.process.ksm_zero or 0) // self._page_size
            self._samples[uuid] = under_way.sample(merged)
            self._due[uuid] = now + self._interval
            self._failed.discard(uuid)
            self._version += 1

    def _fail(self, uuid: str) -> None:
        with self._lock:
            self._failed.add(uuid)

    def _estimate(self, now: float) -> None:
        with self._lock:
            candidates = {uuid: one for uuid, one in self._candidates.items() if uuid in self._samples}
            samples = {uuid: self._samples[uuid] for uuid in candidates}
            version = self._version
        self._forget_rare(samples)
        pools: dict[tuple[str | None, str | None], list[str]] = {}
        for uuid, one in candidates.items():
            pools.setdefault(_group(uuid, one), []).append(uuid)
        groups: list[GroupEstimate] = []
        asking: list[GroupEstimate] = []
        vms: list[VmEstimate] = []
        for (pool, _), uuids in pools.items():
            whole, parts = estimate({uuid: samples[uuid] for uuid in uuids}, pool, self._page_size, self._pace)
            groups.append(whole)
            vms.extend(parts)
            willing = [uuid for uuid in uuids if candidates[uuid].asks]
            if willing == uuids:
                asking.append(whole)
            elif willing:
                asking.append(estimate({one: samples[one] for one in willing}, pool, self._page_size, self._pace)[0])
        with self._lock:
            self._newest = DedupEstimate(vms=tuple(vms), groups=tuple(groups), asking=tuple(asking))
            self._estimated, self._shown = now, version

    def _forget_rare(self, samples: Mapping[str, PageSample]) -> None:
        """Make room for frequent contents when there is little: those with the fewest copies go."""
        if len(self._frequent) < FREQUENT_AT_MOST * 3 // 4:
            return
        counts: Counter[int] = Counter()
        for sample in samples.values():
            counts.update(sample.frequent)
        most = [digest for digest, _ in counts.most_common(FREQUENT_AT_MOST // 2)]
        # In place: the pass under way has it, too.
        self._frequent.intersection_update(most)

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                rest = self.step()
            except Exception:  # a defect here must not end the estimate without a word
                LOG.exception("looking at pages failed")
                rest = 60.0
            self._stop.wait(rest)
        for under_way in [one for _, one in self._waiting.values()] + ([self._running[1]] if self._running else []):
            under_way.close()


def _group(uuid: str, one: Candidate) -> tuple[str | None, str | None]:
    """Who may merge with each other."""
    return one.pool, uuid if one.alone else None


def _who(one: Candidate) -> tuple[str, str | None, bool, bool]:
    return one.process.instance, one.pool, one.asks, one.alone
