"""Blocks of a process's memory that no huge page backs as a whole: PAGEMAP_SCAN finds them, MADV_COLLAPSE makes one.

Linux 6.7 has both. The kernel copies 512 pages into a new huge page, under the lock that page faults of the process
need, and gives memory to those of them that have none.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from memhint.kernel.errors import InterfaceMissing, InterfaceUnreadable, KernelInterfaceError, ProcessGone
from memhint.kernel.guest_pages import Span, guest_ram
from memhint.kernel.open_process import OpenProcess
from memhint.kernel.pagemap_scan import PageCategory, is_missing, runs
from memhint.kernel.process import instance_runs, pid_of
from memhint.kernel.process_madvise import Advice, process_madvise
from memhint.kernel.root import KernelRoot
from memhint.kernel.thp import HUGE_PAGE


class Collapsed(StrEnum):
    """What came of one block."""

    DONE = "done"  # one huge page now, or it was
    NO_BLOCK = "no block"  # the kernel has no huge page to copy it to
    BUSY = "busy"  # somebody held some of its pages: another time it may go
    UNFIT = "unfit"  # it holds pages that cannot move, or is gone


@dataclass(frozen=True, slots=True)
class Block:
    """Memory of the size of a huge page that none backs now."""

    start: int
    absent: int  # bytes of it that have no memory, and would get some


class Blocks(Protocol):
    """The memory of one guest, block by block. A context manager."""

    def __enter__(self) -> Blocks:
        """Itself."""

    def __exit__(self, *_: object) -> None:
        """Let go of the process."""

    def small(self) -> Iterator[Block]:
        """What has some memory, and no huge page, by address."""

    def collapse(self, block: Block) -> Collapsed:
        """Make one huge page of it."""


class GuestBlocks(OpenProcess):
    """Those of a QEMU's guest. It stays the same process: a pid that another one gets is not followed."""

    _descriptors = ("_pidfd", "_pagemap")

    def __init__(self, root: KernelRoot, instance: str) -> None:
        """:param instance: `ProcessMemory.instance`

        :raises ProcessGone: when the process ended
        :raises InterfaceMissing: when the kernel cannot collapse memory of another process
        :raises KernelInterfaceError: when it may not be read
        """
        pid = pid_of(instance)
        self._path = root.path(f"proc/{pid}/pagemap")
        try:
            self._pidfd = os.pidfd_open(pid)
        except OSError as error:
            raise self._failed(error.errno or 0) from error
        self._pagemap = -1
        try:
            if not instance_runs(root, instance):
                raise ProcessGone(self._path, "the process ended")
            self._spans = guest_ram(root, pid)
            self._pagemap = root.open(f"proc/{pid}/pagemap")
            failure = self._advise(0, 0)  # of nothing: whether it could be done
            if failure == errno.EINVAL:
                raise InterfaceMissing("process_madvise", "no MADV_COLLAPSE of another process: it came with Linux 6.1")
            if failure:
                raise self._failed(failure)
        except BaseException:
            self.close()
            raise

    def small(self) -> Iterator[Block]:
        """What has some memory, and no huge page, by address.

        :raises InterfaceMissing: before Linux 6.7
        :raises KernelInterfaceError: when the process ended, or cannot be looked at
        """
        for span in self._spans:
            whole = Span(-(-span.start // HUGE_PAGE) * HUGE_PAGE, span.end // HUGE_PAGE * HUGE_PAGE)
            if whole.start < whole.end:
                yield from small_blocks(self._regions(whole))

    def collapse(self, block: Block) -> Collapsed:
        """Make one huge page of it.

        :raises KernelInterfaceError: when the process ended, or it may not be done
        """
        failure = self._advise(block.start, HUGE_PAGE)
        if not failure:
            return Collapsed.DONE
        if failure == errno.ENOMEM:
            return Collapsed.NO_BLOCK
        if failure in (errno.EAGAIN, errno.EBUSY):
            return Collapsed.BUSY
        if failure in (errno.EINVAL, errno.EFAULT):
            return Collapsed.UNFIT
        raise self._failed(failure)

    def split(self, block: Block) -> None:
        """Have the kernel split the huge page of which this block still maps a part, and free the rest (MADV_COLD).

        By itself it does so when it is short of memory: until then what was dropped of a huge page is charged to the
        process, though neither it nor anybody else has it. What remains counts as not used lately. Of a block that lies
        in small pages already nothing else changes.

        :raises KernelInterfaceError: when the process ended, or it may not be done
        """
        failure = self._advise(block.start, HUGE_PAGE, Advice.COLD)
        if failure not in (0, errno.EINVAL, errno.ENOMEM):  # it is gone, or cannot be aged
            raise self._failed(failure)

    def _advise(self, start: int, length: int, advice: Advice = Advice.COLLAPSE) -> int:
        try:
            process_madvise(self._pidfd, start, length, advice)
        except OSError as error:
            return error.errno or 0
        return 0

    def _regions(self, span: Span) -> Iterator[tuple[int, int, int]]:
        """Runs of present pages: first and last address, and what they are."""
        try:
            yield from runs(self._pagemap, span.start, span.end, PageCategory.PRESENT)
        except OSError as error:
            if is_missing(error):
                raise InterfaceMissing(self._path, "no PAGEMAP_SCAN: it came with Linux 6.7") from error
            raise self._failed(error.errno or 0) from error

    def _failed(self, number: int) -> KernelInterfaceError:
        if number == errno.ESRCH:
            return ProcessGone(self._path, "the process ended")
        if number == errno.ENOSYS:
            return InterfaceMissing("process_madvise", "the kernel does not have it")
        return InterfaceUnreadable(self._path, os.strerror(number))


def small_blocks(regions: Iterable[tuple[int, int, int]]) -> Iterator[Block]:
    """The blocks that have memory and no huge page, of runs of present pages in the order of their addresses."""
    block, present = -1, 0
    for start, end, kind in regions:
        if kind & PageCategory.HUGE:
            continue
        while start < end:
            place = start // HUGE_PAGE * HUGE_PAGE
            until = min(end, place + HUGE_PAGE)
            if place != block:
                if present:
                    yield Block(block, HUGE_PAGE - present)
                block, present = place, 0
            # the kernel's zero page is no memory of the process
            present += 0 if kind & PageCategory.ZERO else until - start
            start = until
    if present:
        yield Block(block, HUGE_PAGE - present)
