"""The system call process_madvise: advice on the memory of another process, known by a descriptor of its own."""

from __future__ import annotations

import ctypes
import os
from enum import IntEnum

_NUMBER = 440  # the same on every architecture


class Advice(IntEnum):
    """What the kernel takes from another process."""

    WILLNEED = 3
    COLD = 20
    COLLAPSE = 25


class _Iovec(ctypes.Structure):
    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


_LIBC = ctypes.CDLL(None, use_errno=True)
_CALL = _LIBC.syscall
_CALL.restype = ctypes.c_long


def process_madvise(pidfd: int, start: int, length: int, advice: Advice) -> int:
    """Give advice on one range of addresses; how many bytes of it were taken before something stood in the way.

    :raises OSError: when nothing was taken, with the kernel's number of why
    """
    vector = _Iovec(start, length)
    done = int(
        _CALL(
            ctypes.c_long(_NUMBER),
            ctypes.c_int(pidfd),
            ctypes.byref(vector),
            ctypes.c_size_t(1),
            ctypes.c_int(advice),
            ctypes.c_uint(0),
        )
    )
    if done < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return done
