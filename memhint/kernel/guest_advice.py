"""Advice to the host's kernel on a guest's memory: that it is old, or that it will be needed."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from memhint.kernel.errors import InterfaceMissing, InterfaceUnreadable, KernelInterfaceError, ProcessGone
from memhint.kernel.guest_ram import GuestRam, read_guest_ram
from memhint.kernel.open_process import OpenProcess
from memhint.kernel.process import instance_runs, pid_of
from memhint.kernel.process_madvise import Advice, process_madvise
from memhint.kernel.process_vm_readv import touch_pages
from memhint.kernel.root import PAGE_SIZE, KernelRoot
from memhint.objects.units import MIB

_BLOCK = 2 * MIB
_ENTRY = 8  # bytes of one of pagemap
_HIGHEST = 7 if sys.byteorder == "little" else 0
_SWAP_BIT = 0x40  # bit 62, which no present page has
_NOT_IN_SWAP = bytes(one for one in range(256) if not one & _SWAP_BIT)
_NOT_READ = frozenset({errno.EPERM, errno.EACCES, errno.ENOSYS, errno.EFAULT})
_LEFT = 32  # one in so many pages of a block is not mapped: by that it is seen whether the guest uses the block
_AT_ONCE = 256 * MIB  # bytes of addresses of one call: in between, others get the process's mmap lock


class Guest(Protocol):
    """The memory of one guest, as its host sees it. A context manager."""

    def __enter__(self) -> Guest:
        """Itself."""

    def __exit__(self, *_: object) -> None:
        """Let go of the process."""

    def look(self) -> GuestRam:
        """Where it is, and what of it is present, was used since it was made old, and is in swap."""

    def age(self) -> None:
        """Let the kernel take all of it for old."""


class Sleeper(Protocol):
    """A guest of which a part is in swap. A context manager."""

    def __enter__(self) -> Sleeper:
        """Itself."""

    def __exit__(self, *_: object) -> None:
        """Let go of the process."""

    def swapped(self) -> Iterator[Swapped]:
        """What of it is in swap, block by block."""

    def will_need(self, block: Swapped) -> None:
        """Let the kernel read what is in swap of a block."""

    def map(self, block: Swapped) -> Mapped:
        """Have most of what was read of it mapped, as if the guest had touched it."""

    def untouched(self, block: Mapped) -> int:
        """How many of the pages that were left are in swap still."""


@dataclass(frozen=True, slots=True)
class Swapped:
    """A block of addresses, and bytes of it that are in swap."""

    start: int
    length: int
    size: int


@dataclass(frozen=True, slots=True)
class Mapped:
    """A block of which most was mapped without the guest, and some pages were left to it: by them its use is seen."""

    start: int
    length: int
    size: int  # bytes that left swap
    left: tuple[int, ...]  # pages of the block, by their numbers in it


class GuestAdvice(OpenProcess):
    """That of a QEMU. It stays the same process: a pid that another one gets is not followed."""

    _descriptors = ("_pidfd", "_pagemap")

    def __init__(self, root: KernelRoot, instance: str) -> None:
        """:param instance: `ProcessMemory.instance`

        :raises ProcessGone: when the process ended
        :raises KernelInterfaceError: when it may not be looked at
        """
        self._root, self._instance = root, instance
        self._pid = pid_of(instance)
        self._path = root.path(f"proc/{self._pid}")
        self._pagemap = -1
        try:
            self._pidfd = os.pidfd_open(self._pid)
        except OSError as error:
            raise self._failed(error) from error
        try:
            self._check()
        except BaseException:
            self.close()
            raise

    def look(self) -> GuestRam:
        """Where it is, and what of it is present, was used since it was made old, and is in swap.

        Walks page tables: about 10 ms per GiB.

        :raises ProcessGone: when the process ended
        :raises KernelInterfaceError: when it cannot be read
        """
        ram = read_guest_ram(self._root, self._pid)
        self._check()  # the numbers are those of this process, not of one that got its pid
        return ram

    def age(self) -> None:
        """Clear the accessed bits of all of it, and have it counted as not used lately (MADV_COLD).

        Pages that other processes have too are left as they are. Of a guest under KVM the bits that its processors set
        stay: no mmu notifier is called (Linux 6.12, mm/madvise.c).

        :raises ProcessGone: when the process ended
        :raises KernelInterfaceError: when it may not be done; InterfaceMissing before Linux 5.10
        """
        for span in self.look().spans:
            for start in range(span.start, span.end, _AT_ONCE):
                self._advise(start, min(_AT_ONCE, span.end - start), Advice.COLD)

    def swapped(self) -> Iterator[Swapped]:
        """What of it is in swap, in blocks of 2 MiB, by address: as pagemap has it when each block is asked for.

        :raises ProcessGone: when the process ended
        :raises KernelInterfaceError: when it cannot be read
        """
        for span in self.look().spans:
            for start in range(span.start, span.end, _BLOCK):
                length = min(_BLOCK, span.end - start)
                count = _in_swap(self._flags(start, length))
                if count:
                    yield Swapped(start, length, count * PAGE_SIZE)

    def will_need(self, block: Swapped) -> None:
        """Let the kernel read what is in swap of a block into its swap cache: a touch finds it there (MADV_WILLNEED).

        :raises ProcessGone: when the process ended
        :raises KernelInterfaceError: when it may not be done
        """
        self._advise(block.start, block.length, Advice.WILLNEED)

    def map(self, block: Swapped) -> Mapped:
        """Have the pages of a block that are in swap mapped, as if the guest had touched them, but for one in 32.

        Waits for those that are still being read. The guest is spared a fault for each; under KVM what is left of it is
        that the hardware's own page tables are filled. They are as clean as a read leaves them and keep their places in
        swap, so the kernel can take them back without writing.

        Nothing is mapped where the kernel lets nobody read the process.

        :raises ProcessGone: when the process ended
        :raises KernelInterfaceError: when it cannot be read
        """
        nothing = Mapped(block.start, block.length, 0, ())
        if self._root.path("proc") != "/proc":
            return nothing  # its number is not that of a process of this machine
        pages = [at for at, flag in enumerate(self._flags(block.start, block.length)) if flag & _SWAP_BIT]
        # Not those of a fixed place: at the next wake hardly any of just these was in swap (Linux 6.12, seen once), and
        # nothing could be told.
        left = tuple(pages[::_LEFT])
        del pages[::_LEFT]
        self._check()
        try:
            done = touch_pages(self._pid, [block.start + at * PAGE_SIZE for at in pages])
        except OSError as error:
            if error.errno in _NOT_READ:
                return nothing
            raise self._failed(error) from error
        return Mapped(block.start, block.length, done * PAGE_SIZE, left)

    def untouched(self, block: Mapped) -> int:
        """How many of the pages that were left are in swap still.

        :raises ProcessGone: when the process ended
        :raises KernelInterfaceError: when it cannot be read
        """
        flags = self._flags(block.start, block.length)
        if not flags:
            raise ProcessGone(self._path, "it has no memory any more")
        return sum(1 for at in block.left if flags[at] & _SWAP_BIT)

    def _flags(self, start: int, length: int) -> bytes:
        """The highest byte of pagemap's entry of each page."""
        if self._pagemap < 0:
            self._pagemap = self._root.open(f"proc/{self._pid}/pagemap")
            self._check()
        try:
            entries = os.pread(self._pagemap, length // PAGE_SIZE * _ENTRY, start // PAGE_SIZE * _ENTRY)
        except OSError as error:
            raise self._failed(error) from error
        return entries[_HIGHEST::_ENTRY]

    def _advise(self, start: int, length: int, advice: Advice) -> None:
        end = start + length
        while start < end:
            try:
                done = process_madvise(self._pidfd, start, end - start, advice)
            except InterruptedError:
                continue
            except OSError as error:
                raise self._failed(error) from error
            if done <= 0:
                raise InterfaceUnreadable(self._path, "process_madvise does nothing")
            start += done

    def _check(self) -> None:
        if not instance_runs(self._root, self._instance):
            raise ProcessGone(self._path, "the process ended")

    def _failed(self, error: OSError) -> KernelInterfaceError:
        if error.errno == errno.ESRCH:
            return ProcessGone(self._path, "the process ended")
        if error.errno == errno.ENOSYS:
            return InterfaceMissing("process_madvise", "the kernel does not have it: it came with Linux 5.10")
        return InterfaceUnreadable(self._path, f"process_madvise: {os.strerror(error.errno or 0)}")


def _in_swap(flags: bytes) -> int:
    """Pages."""
    return len(flags.translate(None, _NOT_IN_SWAP))
