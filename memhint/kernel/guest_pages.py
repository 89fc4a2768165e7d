"""The pages behind a guest's memory, read from the host: /proc/PID/smaps, pagemap and mem.

Which mappings are guest memory is in guest_ram.py.

Only pages that pagemap shows present are read, so nothing is faulted or swapped in. Between the two reads lies the time
of one chunk, well below a millisecond: a page that leaves within it comes back as the kernel's shared zero page, which
takes no memory, or from swap. A read marks a page as used: to the kernel's ageing the page looks a little younger than
it is, and whoever counts referenced memory meanwhile counts it. There is no way to read another process's page without
that. No huge page is broken up.

Pages are read by process_vm_readv, which takes hold of many neighbours at once: mem takes one after the other, and
copies each twice. But it pins what it reads, and the kernel gives a page that others map, too, a copy for that: one
that KSM merged would be separated. So it is used for pages that pagemap shows mapped once, and mem for the others. It
knows the process by its number alone: its word counts only if the process that was meant still has memory afterwards.

The loop over the pages is compiled where the package was built with a compiler (``_pages.c``), and Python otherwise.
"""

from __future__ import annotations

import errno
import os
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import xxhash

from memhint.kernel.errors import ProcessGone
from memhint.kernel.guest_ram import Span as Span
from memhint.kernel.guest_ram import read_guest_ram
from memhint.kernel.native import PAGES, NativePages
from memhint.kernel.open_process import OpenProcess
from memhint.kernel.page_index import print_of
from memhint.kernel.root import PAGE_SIZE, KernelRoot

CHUNK = 256  # pages that are read at once: a MiB, which stays in the cache until it is hashed
PART = 128  # bytes of a page: two lines of the cache
_PARTS = (4, 16)  # where it may lie in a page, in PARTs: beginnings are often alike, and ends empty
_FORBIDDEN = frozenset({errno.EPERM, errno.EACCES, errno.ENOSYS})
_ENTRY = 8  # bytes of one page in pagemap
_PRESENT = 1 << 63
_FILE = 1 << 61  # of a file, or shared with another process
_EXCLUSIVE = 1 << 56  # nothing else maps it; neither the kernel's zero page nor a page that KSM shares
_T = TypeVar("_T")


@dataclass(slots=True)
class PageHashes:
    """What a stretch of memory holds. Pages of zeros are told apart and have no hash."""

    addresses: array[int] = field(default_factory=lambda: array("Q"))  # of pages with content
    hashes: array[int] = field(default_factory=lambda: array("Q"))  # theirs, in the same order
    zeros: array[int] = field(default_factory=lambda: array("Q"))  # addresses of zero pages with memory of their own


def guest_ram(root: KernelRoot, pid: int) -> tuple[Span, ...]:
    """The mappings that hold a guest's memory, by address. Walks page tables: about 10 ms per GiB.

    :raises ProcessGone: when the process ended
    :raises KernelInterfaceError: when smaps cannot be read, or a mapping has no flags
    """
    return read_guest_ram(root, pid).spans


def read_buffer(page_size: int = PAGE_SIZE) -> memoryview:
    """What pages are read into, a MiB. Nothing in it is needed from one call to the next."""
    return memoryview(bytearray(CHUNK * page_size))


class GuestPages(OpenProcess):
    """Reads the pages of one process, which stays the same one: a pid that another process gets is not followed.

    A context manager. Not for two threads at a time.
    """

    _descriptors = ("_pagemap", "_memory")

    def __init__(
        self,
        root: KernelRoot,
        pid: int,
        seed: int,
        page_size: int = PAGE_SIZE,
        native: NativePages | None = PAGES,
        buffer: memoryview | None = None,
    ) -> None:
        """:param seed: of the hashes; only those of one seed can be compared
        :param native: the compiled loop; None is Python's
        :param buffer: of `read_buffer`, for processes that are read by turns; None is one of its own
        :raises KernelInterfaceError: when the process is gone, or may not be read
        """
        self._page = page_size
        self._seed = seed
        self._native = native
        first, end = _PARTS
        self._offset = (first + seed % (end - first)) * PART  # secret, as the seed is
        # A process's number is that of /proc only where this is the machine's own.
        self._pid = pid if root.path("proc") == "/proc" else 0
        self._zero = xxhash.xxh3_64_intdigest(bytes(page_size), seed=seed)
        self._path = root.path(f"proc/{pid}/mem")
        self._buffer = read_buffer(page_size) if buffer is None else buffer
        self._pagemap = root.open(f"proc/{pid}/pagemap")
        try:
            self._memory = root.open(f"proc/{pid}/mem")
        except BaseException:
            os.close(self._pagemap)
            raise

    def look(self, start: int, pages: int, wanted: array[int] | None = None) -> PageHashes:
        """Read and hash what is present of at most CHUNK pages from an address on.

        Left out are pages that are absent, swapped out, of a file or shared with another process, and those of zeros
        that have no memory of their own (the kernel's zero page, by a read fault or by KSM).

        :param wanted: ABSENT for each page that is to be passed over
        :raises ProcessGone: when the process ended
        """
        if self._native is not None:
            return self._look(self._native, start, pages, wanted)
        look = PageHashes()
        places: Iterable[int]
        entries = self._entries(start, pages)
        if wanted is not None:
            entries = array("Q", (one if asked else 0 for one, asked in zip(entries, wanted, strict=False)))
        for first, count in _runs(entries):
            address = start + first * self._page
            got = self._read(address, count)
            digests = [xxhash.xxh3_64_intdigest(self._slot(at), self._seed) for at in range(got)]
            places = range(address, address + got * self._page, self._page)
            if self._zero in digests:
                own = [entry & _EXCLUSIVE for entry in entries[first : first + got]]
                found = zip(places, digests, own, strict=True)
                look.zeros.extend(place for place, digest, mine in found if digest == self._zero and mine)
                places = [place for place, digest in zip(places, digests, strict=True) if digest != self._zero]
                digests = [digest for digest in digests if digest != self._zero]
            look.addresses.extend(places)
            look.hashes.extend(digests)
        return look

    def parts(self, start: int, pages: int) -> tuple[array[int], int]:
        """Read a part of each page that is present, PART bytes at one secret place, of at most CHUNK pages.

        :return: a print for each page; ABSENT for those that ``look`` leaves out. Pages of zeros have one like any
            other: a part does not tell them. And the bytes that were read: where pages lie side by side in the
            machine's memory, to read all of them takes less time than to read a part of each
        :raises ProcessGone: when the process ended
        """
        pages = min(pages, CHUNK)
        if self._native is not None:
            native, rest = self._native, (start, pages, self._page, self._seed, self._offset, PART, self._buffer)
            prints, read = self._called(lambda pid: native.parts(self._pagemap, self._memory, pid, *rest))
            return array("I", prints), read
        found, read = array("I", bytes(4 * pages)), 0
        entries = self._entries(start, pages)
        for first, count in _runs(entries):
            got = self._read(start + first * self._page, count)
            read += got * self._page
            for at in range(got):
                whole = self._slot(at)
                if entries[first + at] & _EXCLUSIVE or any(whole):
                    part = whole[self._offset : self._offset + PART]
                    found[first + at] = print_of(xxhash.xxh3_64_intdigest(part, self._seed))
        return found, read

    def _look(self, native: NativePages, start: int, pages: int, wanted: array[int] | None) -> PageHashes:
        rest = (start, min(pages, CHUNK), self._page, self._seed, self._zero, self._buffer, wanted)
        found = self._called(lambda pid: native.look(self._pagemap, self._memory, pid, *rest))
        look = PageHashes()
        for kept, text in zip((look.addresses, look.hashes, look.zeros), found, strict=True):
            kept.frombytes(text)
        return look

    def _called(self, read: Callable[[int], _T | None]) -> _T:
        """What a compiled loop returns that is told the process's number."""
        try:
            found = read(self._pid)
        except OSError as error:
            if error.errno not in _FORBIDDEN or not self._pid:
                raise ProcessGone(self._path, os.strerror(error.errno or 0)) from error
            self._pid = 0  # a host that does not let it: mem has been opened
            return self._called(read)
        if found is None:
            raise ProcessGone(self._path, "it has no memory any more")
        return found

    def look_again(self, addresses: Sequence[int]) -> PageHashes:
        """The same for single pages, in ascending order.

        :raises ProcessGone: when the process ended
        """
        whole = PageHashes()
        for start, pages in _stretches(addresses, self._page):
            look = self.look(start, pages)
            whole.addresses += look.addresses
            whole.hashes += look.hashes
            whole.zeros += look.zeros
        return whole

    def _entries(self, start: int, pages: int) -> array[int]:
        entries = array("Q")
        try:
            text = os.pread(self._pagemap, min(pages, CHUNK) * _ENTRY, start // self._page * _ENTRY)
        except OSError as error:
            raise ProcessGone(self._path, os.strerror(error.errno or 0)) from error
        entries.frombytes(text[: len(text) // _ENTRY * _ENTRY])
        if not entries:
            raise ProcessGone(self._path, "it has no memory any more")
        return entries

    def _slot(self, at: int) -> memoryview:
        return self._buffer[at * self._page : (at + 1) * self._page]

    def _read(self, address: int, pages: int) -> int:
        """How many whole pages could be read: fewer when the rest has been unmapped meanwhile."""
        try:
            return os.preadv(self._memory, [self._buffer[: pages * self._page]], address) // self._page
        except OSError as error:
            if error.errno in (errno.EIO, errno.EFAULT):
                return 0
            raise ProcessGone(self._path, os.strerror(error.errno or 0)) from error


def _runs(entries: array[int]) -> Iterator[tuple[int, int]]:
    """First and length of each run of pages that may be read."""
    first = None
    for at, entry in enumerate(entries):
        readable = entry & _PRESENT and not entry & _FILE
        if readable and first is None:
            first = at
        elif not readable and first is not None:
            yield first, at - first
            first = None
    if first is not None:
        yield first, len(entries) - first


def _stretches(addresses: Iterable[int], page: int) -> Iterator[tuple[int, int]]:
    """Runs of neighbouring pages, none longer than a chunk."""
    start, pages = 0, 0
    for address in addresses:
        if pages and address == start + pages * page and pages < CHUNK:
            pages += 1
            continue
        if pages:
            yield start, pages
        start, pages = address, 1
    if pages:
        yield start, pages
