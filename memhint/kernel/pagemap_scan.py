"""PAGEMAP_SCAN, with which the kernel says where a process has pages of a kind. It came with Linux 6.7."""

from __future__ import annotations

import errno
import fcntl
import struct
from array import array
from collections.abc import Iterator
from enum import IntFlag

_PAGEMAP_SCAN = 0xC0606610  # _IOWR('f', 16, struct pm_scan_arg)
_SCAN = struct.Struct("12Q")
_REGIONS = 1024


class PageCategory(IntFlag):
    """What a page is, as PAGEMAP_SCAN has it."""

    PRESENT = 1 << 3
    ZERO = 1 << 5  # the kernel's zero page stands for it
    HUGE = 1 << 6


def runs(pagemap: int, start: int, end: int, kinds: PageCategory) -> Iterator[tuple[int, int, int]]:
    """Runs of pages between two addresses that are of all these kinds, by address: first, end, and all that they are.

    :param pagemap: descriptor of /proc/PID/pagemap
    :raises OSError: ESRCH when the process has ended, ENOTTY or EINVAL before Linux 6.7
    """
    for found, count in _found(pagemap, start, end, kinds, PageCategory(0)):
        for at in range(0, 3 * count, 3):
            yield found[at], found[at + 1], found[at + 2]


def total(pagemap: int, end: int, kinds: PageCategory, *, without: PageCategory) -> int:
    """Bytes of a process below ``end`` that are of all these kinds and of none of the others.

    :param end: at most where the process's addresses end: beyond, the kernel refuses all of it
    :raises OSError: as `runs` does, and EFAULT on an ``end`` beyond
    """
    return sum(
        sum(found[1 : 3 * count : 3]) - sum(found[0 : 3 * count : 3])
        for found, count in _found(pagemap, 0, end, kinds, without)
    )


def is_missing(error: OSError) -> bool:
    """Whether the kernel does not have it."""
    return error.errno in (errno.ENOTTY, errno.EINVAL)


def _found(
    pagemap: int, start: int, end: int, kinds: PageCategory, without: PageCategory
) -> Iterator[tuple[array[int], int]]:
    """Runs, some at a time: first, end and kinds of each, and how many runs."""
    found = array("Q", bytes(8 * 3 * _REGIONS))
    told = kinds | without | PageCategory.PRESENT | PageCategory.ZERO | PageCategory.HUGE
    place = start
    while place < end:
        request = bytearray(
            _SCAN.pack(
                *(_SCAN.size, 0, place, end, 0, found.buffer_info()[0], _REGIONS, 0),
                *(without, kinds | without, 0, told),
            )
        )
        count = fcntl.ioctl(pagemap, _PAGEMAP_SCAN, request)
        yield found, count
        reached = _SCAN.unpack(request)[4]
        if reached <= place:
            raise OSError(errno.ESRCH, "it has no memory any more")
        place = reached
