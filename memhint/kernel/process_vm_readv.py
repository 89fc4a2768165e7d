"""The system call process_vm_readv: a byte of each of many pages of another process brings in what is swapped."""

from __future__ import annotations

import ctypes
import os
from array import array
from collections.abc import Sequence

AT_ONCE = 512  # pages of one call; the kernel takes 1024

_CALL = ctypes.CDLL(None, use_errno=True).process_vm_readv
_CALL.restype = ctypes.c_ssize_t
_ONE = 1  # byte of each


def touch_pages(pid: int, pages: Sequence[int]) -> int:
    """Read the first byte of each page of a process, as far as they are mapped; how many that were.

    What is in swap comes back into the process's page tables as at a touch of its own, and the fault is counted as the
    caller's. What was read is thrown away.

    :param pages: their addresses
    :raises OSError: when nothing may be read, with the kernel's number of why
    """
    done = 0
    for first in range(0, len(pages), AT_ONCE):
        part = array("Q", pages[first : first + AT_ONCE])
        count = len(part)
        remote = array("Q", [_ONE]) * (2 * count)
        remote[::2] = part
        sink = ctypes.create_string_buffer(count)
        local = array("Q", [ctypes.addressof(sink), count])
        got = int(
            _CALL(
                ctypes.c_int(pid),
                ctypes.c_void_p(local.buffer_info()[0]),
                ctypes.c_ulong(1),
                ctypes.c_void_p(remote.buffer_info()[0]),
                ctypes.c_ulong(count),
                ctypes.c_ulong(0),
            )
        )
        if got < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        done += got
        if got < count:  # the rest is not mapped any more, or the page after it
            break
    return done
