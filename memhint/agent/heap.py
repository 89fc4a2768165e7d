"""The C library's heap, told to give back what is freed: a cycle needs large texts for a moment, and then not at all.

glibc by itself has a heap for nearly each thread, and learns from large texts that come and go to keep room for them.
That is 2 MiB of an agent of 100 VMs.
"""

from __future__ import annotations

from memhint.objects.units import KIB

# <malloc.h>
_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -2, -3, -8

_SETTINGS = {
    _ARENA_MAX: 1,
    _MMAP_THRESHOLD: 32 * KIB,
    _TRIM_THRESHOLD: 64 * KIB,
    _TOP_PAD: 64 * KIB,
}


def keep_heap_small() -> None:
    """To be called before there are threads. Does nothing where the C library has no such settings."""
    import ctypes  # which other commands do not wait for

    setting = getattr(ctypes.CDLL(None), "mallopt", None)
    if setting is not None:
        for name, value in _SETTINGS.items():
            setting(name, value)
