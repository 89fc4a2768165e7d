"""Finds the pages that could merge, of all VMs of one group, with several workers: most pages are only glanced at.

- At the first look a part of each page is read, 128 bytes at a secret place, and its print kept and entered in a filter
  (kernel/page_index.py). Equal pages have equal parts, so a page whose part was seen once has no partner.
- The others are read whole at the second look; prints of their whole hashes take the place of the first, and go
  into a filter of their own.
- At the third, ``settle`` seconds later, those that have a partner by then are read again: candidates are those that
  hold the same. Only their hashes are kept, so the estimate needs no sampling where they fit (``KEPT_AT_MOST``), and
  keeps one content in so many where they do not.

The price against samples (page_pass.py): what has a partner is read, and marked as used, three times, and all else in
part. What is gained is that nothing is left to chance, and that the work has no order and goes on several cores.
"""

from __future__ import annotations

import threading
import time
from array import array
from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from enum import Enum

from memhint.kernel.errors import KernelInterfaceError, ProcessGone
from memhint.kernel.guest_pages import CHUNK, GuestPages, Span, guest_ram, read_buffer
from memhint.kernel.native import PAGES, NativePages
from memhint.kernel.page_index import ZEROS, PageIndex, held, prints_of
from memhint.kernel.process import instance_runs
from memhint.kernel.root import KernelRoot
from memhint.objects.domain import ProcessMemory
from memhint.objects.estimate import FinderRound
from memhint.objects.merge_ranges import RangeChoice
from memhint.planner.dedup_estimate import PageSample
from memhint.planner.dedup_ranges import BLOCK, choose

KEPT_AT_MOST = 1 << 20  # hashes of candidates, of all VMs together: 8 bytes each
FREQUENT = 64  # copies of a content that make it one to be counted one by one, where not all hashes can be kept
FREQUENT_AT_MOST = 4096  # such contents
PIECE = 16_384  # pages that are looked at in one go, 64 MiB; a worker takes up to two such pieces at a time
_AT_ONCE = 0.002  # seconds of CPU, or worth of bytes, between two rests of a worker


@dataclass(frozen=True, slots=True)
class FinderSettings:
    """What finding may take, of all workers together."""

    workers: int
    cpu_percent: float  # of one core: 200 are two cores
    bytes_per_second: int  # that are read
    settle: float  # seconds between the two looks at whole pages


@dataclass(frozen=True, slots=True)
class Found:
    """What one round brought."""

    samples: Mapping[str, PageSample]  # by UUID
    failed: Mapping[str, str]  # why a VM could not be looked at to the end, by UUID: nothing is told of it
    round: FinderRound
    ranges: Mapping[str, RangeChoice]  # what is worth merging of each VM, by UUID


class _Look(Enum):
    PARTS = "parts"
    WHOLE = "whole"
    AGAIN = "again"


@dataclass(slots=True)
class _Piece:
    """A stretch of one VM's memory. ``prints`` are made when something is found in it, ``blocks`` for candidates."""

    uuid: str
    process: ProcessMemory
    span: Span
    prints: array[int] | None = None  # of parts, and from the second look on of whole pages
    blocks: bytearray | None = None  # candidates and pages of zeros that stay, of each BLOCK pages


@dataclass(slots=True)
class _Counts:
    """Pages of one VM."""

    looked: int = 0
    changed: int = 0
    zeros: int = 0
    zeros_held: int = 0
    candidates: int = 0
    repeated: int = 0  # prints that were in the filter before

    def add(self, other: _Counts) -> None:
        self.repeated += other.repeated
        self.looked += other.looked
        self.changed += other.changed
        self.zeros += other.zeros
        self.zeros_held += other.zeros_held
        self.candidates += other.candidates


class KeptHashes:
    """The hashes of candidates by VM, bounded: when they are too many, one content in ``rate`` stays.

    Contents with many copies, of which a sample would keep all or none, are counted one by one by then.
    """

    def __init__(self, at_most: int = KEPT_AT_MOST) -> None:
        self.rate = 1
        self.hashes: dict[str, array[int]] = {}
        self.frequent: dict[str, Counter[int]] = {}
        self._known: set[int] = set()
        self._at_most = at_most
        self._total = 0

    def add(self, uuid: str, hashes: array[int]) -> None:
        """More of one VM's."""
        kept = self._sifted(uuid, hashes) if self.rate > 1 else hashes
        self.hashes.setdefault(uuid, array("Q")).extend(kept)
        self._total += len(kept)
        while self._total > self._at_most:
            self._thin()

    def forget(self, uuid: str) -> None:
        """Drop what is of one VM."""
        self._total -= len(self.hashes.pop(uuid, ()))
        self.frequent.pop(uuid, None)

    def alone(self) -> dict[str, int]:
        """Candidates that are none, by VM: no other page has their content."""
        counts: Counter[int] = Counter()
        for hashes in self.hashes.values():
            counts.update(hashes)
        return {
            uuid: self.rate * sum(1 for one in hashes if counts[one] == 1 and one not in self._known)
            for uuid, hashes in self.hashes.items()
        }

    def _thin(self) -> None:
        if len(self._known) < FREQUENT_AT_MOST:
            counts: Counter[int] = Counter()
            for hashes in self.hashes.values():
                counts.update(hashes)
            many = counts.most_common(FREQUENT_AT_MOST - len(self._known))
            self._known.update(one for one, count in many if count >= FREQUENT)
        self.rate *= 2
        self.hashes = {uuid: self._sifted(uuid, hashes) for uuid, hashes in self.hashes.items()}
        self._total = sum(len(hashes) for hashes in self.hashes.values())

    def _sifted(self, uuid: str, hashes: array[int]) -> array[int]:
        often = self.frequent.setdefault(uuid, Counter())
        often.update(one for one in hashes if one in self._known)
        coarse = self.rate - 1
        return array("Q", (one for one in hashes if not one & coarse and one not in self._known))


@dataclass(slots=True)
class _Work:
    """One round under way; the lock holds for all of it but the filters and the prints."""

    index: PageIndex
    kept: KeptHashes
    counts: dict[str, _Counts]
    began: float
    more: PageIndex | None = None  # of whole pages
    filled: int = 0  # bytes of filters, at the most
    lock: threading.Lock = field(default_factory=threading.Lock)
    failed: dict[str, str] = field(default_factory=dict)
    cpu: float = 0.0
    read: int = 0
    broken: BaseException | None = None


class _Share:
    """What one thread may take of the CPU and of the bytes; made on that thread."""

    def __init__(self, settings: FinderSettings, stop: threading.Event) -> None:
        self.cpu = 0.0
        self.read = 0
        self._share = min(1.0, settings.cpu_percent / 100 / settings.workers)
        self._per_byte = settings.workers / settings.bytes_per_second
        self._stop = stop
        self._began, self._since, self._owed = time.thread_time(), time.monotonic(), 0

    def took(self, read: int) -> None:
        """So many bytes were read; rest when that is due."""
        self._owed += read
        if time.thread_time() - self._began >= _AT_ONCE or self._owed * self._per_byte >= _AT_ONCE:
            self.rest()

    def rest(self) -> None:
        """Until what was taken is within the share."""
        took, elapsed = time.thread_time() - self._began, time.monotonic() - self._since
        wait = max(took / self._share, self._owed * self._per_byte) - elapsed
        if wait > 0:
            self._stop.wait(wait)
        self.cpu += took
        self.read += self._owed
        self._began, self._since, self._owed = time.thread_time(), time.monotonic(), 0

    def from_now(self) -> None:
        """The time until now was others', who had the whole share: it makes up for nothing that was taken."""
        self._since = time.monotonic()


class _Opened:
    """The process that one worker reads; VMs have many small stretches, and to open one takes as long as many pages."""

    def __init__(self, root: KernelRoot, seed: int, page_size: int, native: NativePages | None) -> None:
        self._root = root
        self._with = (seed, page_size, native, read_buffer(page_size))
        self._page = page_size
        self._instance = ""
        self._pages: GuestPages | None = None

    def pages(self, process: ProcessMemory) -> GuestPages:
        """Those of this process.

        :raises KernelInterfaceError: when it is gone, or may not be read
        """
        if self._pages is None or self._instance != process.instance:
            self.close()
            pages = GuestPages(self._root, process.pid, *self._with)
            # The descriptors stay with this process. Only now is it sure that the pid is the one that was meant.
            try:
                if not instance_runs(self._root, process.instance):
                    raise ProcessGone(self._root.path(f"proc/{process.pid}"), "the pid is another process's by now")
            except BaseException:
                pages.close()
                raise
            self._pages, self._instance = pages, process.instance
        return self._pages

    def close(self) -> None:
        """Let go of it."""
        if self._pages is not None:
            self._pages.close()
            self._pages = None


class Finder:
    """Looks at groups of VMs, one group at a time."""

    def __init__(
        self,
        root: KernelRoot,
        page_size: int,
        seed: int,
        settings: FinderSettings,
        wall: Callable[[], float] = time.time,
        native: NativePages | None = PAGES,
    ) -> None:
        """:param seed: of the hashes; secret, so that no guest can make pages that only seem to be equal"""
        self._root = root
        self._page = page_size
        self.seed = seed
        self._settings = settings
        self._wall = wall
        self._native = native

    def round(self, processes: Mapping[str, ProcessMemory], stop: threading.Event) -> Found | None:
        """Look at all these VMs; None when it was stopped.

        A VM that ends, or is another process by a later look, is told in ``failed``, and nothing is counted of it.
        """
        began, own = time.monotonic(), _Share(replace(self._settings, workers=1), stop)
        pages = sum(one.rss for one in processes.values()) // self._page
        work = _Work(
            PageIndex(pages, self._native), KeptHashes(), {uuid: _Counts() for uuid in processes}, self._wall()
        )
        pieces = self._pieces(processes, work, own)
        own.rest()
        self._pass(_Look.PARTS, pieces, work, stop)
        pieces = [one for one in pieces if one.prints is not None]
        work.filled = work.index.size
        # A print that was there before had one that was the first.
        work.more = PageIndex(min(pages, 2 * sum(one.repeated for one in work.counts.values())), self._native)
        self._pass(_Look.WHOLE, pieces, work, stop)
        work.index, work.filled = work.more, max(work.filled, work.index.size + work.more.size)
        pieces = [one for one in pieces if one.uuid not in work.failed]
        if pieces and not stop.is_set() and not stop.wait(self._settings.settle):
            self._pass(_Look.AGAIN, pieces, work, stop)
        if stop.is_set():
            return None
        own.from_now()
        for uuid in work.failed:
            work.kept.forget(uuid)
        samples = {
            uuid: self._sample(uuid, processes[uuid], counts, work)
            for uuid, counts in work.counts.items()
            if uuid not in work.failed
        }
        candidates = sum(work.counts[uuid].candidates for uuid in samples)
        alone = work.kept.alone()
        ranges = {uuid: self._ranges(uuid, pieces, work.counts[uuid], alone.get(uuid, 0)) for uuid in samples}
        own.rest()
        done = FinderRound(
            at=work.began,
            elapsed=time.monotonic() - began,
            workers=self._settings.workers,
            compiled=self._native is not None,
            read=work.read,
            index=work.filled + sum(len(one.prints) * one.prints.itemsize for one in pieces if one.prints is not None),
            candidates=candidates * self._page,
            without_partner=sum(alone.values()) * self._page,
            cpu=work.cpu + own.cpu,
        )
        return Found(samples, dict(work.failed), done, ranges)

    def _ranges(self, uuid: str, pieces: list[_Piece], counts: _Counts, alone: int) -> RangeChoice:
        counted = [(one.span.start, bytes(one.blocks)) for one in pieces if one.uuid == uuid and one.blocks is not None]
        partners = max(0, counts.candidates - alone) + counts.zeros_held
        return choose(counted, partners, counts.looked, self._page)

    def _pieces(self, processes: Mapping[str, ProcessMemory], work: _Work, own: _Share) -> list[_Piece]:
        pieces: list[_Piece] = []
        size = PIECE * self._page
        for uuid, process in processes.items():
            try:
                spans = guest_ram(self._root, process.pid)
            except KernelInterfaceError as error:
                work.failed[uuid] = str(error)
                continue
            pieces += [
                _Piece(uuid, process, Span(start, min(start + size, span.end)))
                for span in spans
                for start in range(span.start, span.end, size)
            ]
            own.took(0)
        return pieces

    def _pass(self, which: _Look, pieces: list[_Piece], work: _Work, stop: threading.Event) -> None:
        left = deque(_batches(pieces, 2 * PIECE * self._page))
        threads = [
            threading.Thread(target=self._run, args=(which, left, work, stop), name=f"page-finder-{number}")
            for number in range(self._settings.workers)
        ]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
        if work.broken is not None:
            raise work.broken

    def _run(self, which: _Look, left: deque[list[_Piece]], work: _Work, stop: threading.Event) -> None:
        share = _Share(self._settings, stop)
        try:
            with closing(_Opened(self._root, self.seed, self._page, self._native)) as opened:
                while left and not stop.is_set() and work.broken is None:
                    try:
                        batch = left.popleft()
                    except IndexError:
                        break
                    for piece in batch:
                        if piece.uuid not in work.failed:
                            self._look_at(which, piece, work, share, stop, opened)
            share.rest()
        except BaseException as error:  # noqa: BLE001 - told by the thread that waits
            work.broken = error
        with work.lock:
            work.cpu += share.cpu
            work.read += share.read

    def _look_at(
        self, which: _Look, piece: _Piece, work: _Work, share: _Share, stop: threading.Event, opened: _Opened
    ) -> None:
        counts, hashes = _Counts(), array("Q")
        try:
            pages = opened.pages(piece.process)
            for start in range(piece.span.start, piece.span.end, CHUNK * self._page):
                if stop.is_set():
                    return
                count = min(CHUNK, (piece.span.end - start) // self._page)
                if which is _Look.PARTS:
                    share.took(self._parts(pages, start, count, piece, counts, work.index))
                elif which is _Look.WHOLE:
                    assert work.more is not None
                    share.took(self._whole(pages, start, count, piece, work))
                else:
                    share.took(self._again(pages, start, count, piece, counts, hashes, work.index))
        except KernelInterfaceError as error:
            with work.lock:
                work.failed[piece.uuid] = str(error)
            return
        with work.lock:
            work.counts[piece.uuid].add(counts)
            if hashes:
                work.kept.add(piece.uuid, hashes)

    def _parts(
        self, pages: GuestPages, start: int, count: int, piece: _Piece, counts: _Counts, index: PageIndex
    ) -> int:
        """The first look at some pages; how many bytes were read."""
        prints, read = pages.parts(start, count)
        looked, repeated = index.enter(prints)
        if not looked:
            return read
        if piece.prints is None:
            piece.prints = array("I", bytes(4 * ((piece.span.end - piece.span.start) // self._page)))
        at = (start - piece.span.start) // self._page
        piece.prints[at : at + count] = prints
        counts.looked += looked
        counts.repeated += repeated
        return read

    def _whole(self, pages: GuestPages, start: int, count: int, piece: _Piece, work: _Work) -> int:
        """The second, at those whose part is another page's, too."""
        assert piece.prints is not None  # others are not looked at again
        assert work.more is not None
        at = (start - piece.span.start) // self._page
        wanted = work.index.repeated(piece.prints[at : at + count])
        if not wanted.there:
            piece.prints[at : at + count] = wanted.prints
            return 0
        look = pages.look(start, count, wanted.prints)
        prints = prints_of(look.addresses, look.hashes, look.zeros, start, self._page, count, self._native)
        piece.prints[at : at + count] = prints
        work.more.enter(prints)
        return (len(look.hashes) + len(look.zeros)) * self._page

    def _again(
        self,
        pages: GuestPages,
        start: int,
        count: int,
        piece: _Piece,
        counts: _Counts,
        hashes: array[int],
        index: PageIndex,
    ) -> int:
        """The third, at those that have a partner; ``hashes`` takes those that hold the same."""
        assert piece.prints is not None
        at = (start - piece.span.start) // self._page
        wanted = index.repeated(piece.prints[at : at + count])
        if not wanted.there:
            return 0
        look = pages.look(start, count, wanted.prints)
        addresses, same = held(look.addresses, look.hashes, start, self._page, wanted.prints, self._native)
        zeros = [address for address in look.zeros if wanted.prints[(address - start) // self._page] == ZEROS]
        counts.zeros += wanted.zeros
        counts.zeros_held += len(zeros)
        counts.changed += wanted.there - wanted.zeros - len(addresses)
        counts.candidates += len(addresses)
        hashes.extend(same)
        if addresses or zeros:
            size = BLOCK * self._page
            if piece.blocks is None:
                piece.blocks = bytearray(-(-(piece.span.end - piece.span.start) // size))
            for found in (addresses, zeros):
                _count(found, piece.blocks, piece.span.start, size, at // BLOCK)
        return (len(look.hashes) + len(look.zeros)) * self._page

    def _sample(self, uuid: str, process: ProcessMemory, counts: _Counts, work: _Work) -> PageSample:
        often = dict(work.kept.frequent.get(uuid, {}))
        return PageSample(
            at=work.began,
            rate=work.kept.rate,
            looked=counts.looked,
            kept=work.kept.hashes.get(uuid, array("Q")),
            # of all of them, where a sample has one in ``rate``
            changed=counts.changed // work.kept.rate,
            frequent=often,
            # they were counted at the second look
            frequent_tried=sum(often.values()),
            frequent_held=sum(often.values()),
            zeros=counts.zeros,
            zeros_tried=counts.zeros,
            zeros_held=counts.zeros_held,
            zeros_merged=(process.ksm_zero or 0) // self._page,
        )


def _batches(pieces: Sequence[_Piece], at_most: int) -> Iterator[list[_Piece]]:
    """Neighbouring pieces of one VM that one worker takes at a time, of so many bytes: most stretches are small."""
    batch: list[_Piece] = []
    size = 0
    for one in pieces:
        if batch and (one.uuid != batch[0].uuid or size + one.span.size > at_most):
            yield batch
            batch, size = [], 0
        batch.append(one)
        size += one.span.size
    if batch:
        yield batch


def _count(addresses: Sequence[int], blocks: bytearray, start: int, size: int, block: int) -> None:
    """Add ascending addresses to their blocks, of which this is the first; block 0 is at ``start``."""
    done = 0
    while done < len(addresses):
        upto = bisect_left(addresses, start + (block + 1) * size)
        blocks[block] += upto - done
        done, block = upto, block + 1
