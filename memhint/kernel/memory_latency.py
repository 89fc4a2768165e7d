"""How long an access to memory takes: near and far, in small pages and in huge ones, of this very host.

`python -m memhint.kernel.memory_latency` measures it, in some seconds and with 128 MiB, and prints what
`[khugepaged] far_huge_ratio` is to be told.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import platform
import random
import time
from array import array
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from memhint.kernel.errors import InterfaceMissing, InterfaceUnreadable, KernelInterfaceError
from memhint.kernel.fields import listed
from memhint.kernel.numa import numa_nodes
from memhint.kernel.root import KernelRoot
from memhint.kernel.thp import HUGE_PAGE
from memhint.objects.units import MIB

SIZE = 64 * MIB  # larger than what processors keep of it themselves
_STEPS = 200_000  # accesses, each of which waits for the one before
_ROUNDS = 3
_LINE = 64  # bytes that a processor fetches at once
_SMALL = 16 * 1024  # bytes that it keeps next to itself: what the loop alone takes
_SET_MEMPOLICY = {"x86_64": 238, "aarch64": 237}  # numbers of the system call
_PREFERRED = 1
_LIBC = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True, slots=True)
class Latency:
    """Seconds of one access that nothing foresaw."""

    near_small: float
    near_huge: float
    far_huge: float | None  # None on a host of one node

    @property
    def far_huge_ratio(self) -> float | None:
        """A huge page of another node, over small ones of the own: above 1 the small ones are the better."""
        return None if self.far_huge is None else self.far_huge / self.near_small


def measure(root: KernelRoot) -> Latency:
    """From the processors of the first node that has some; far is the next node with memory.

    :raises InterfaceMissing: where a thread's memory cannot be had from a node
    :raises KernelInterfaceError: when the nodes cannot be read, or no huge pages are free
    """
    nodes = [one.node for one in numa_nodes(root) if one.total]
    near = next((node for node in nodes if _cpus(root, node)), None)
    if near is None:
        raise InterfaceMissing(root.path("sys/devices/system/node"), "no node with processors and memory")
    far = next((node for node in nodes if node != near), None)
    cpus = _cpus(root, near)
    return Latency(
        _apart(lambda: _access(cpus, near, huge=False)),
        _apart(lambda: _access(cpus, near, huge=True)),
        None if far is None else _apart(lambda: _access(cpus, far, huge=True)),
    )


def _cpus(root: KernelRoot, node: int) -> set[int]:
    relative = f"sys/devices/system/node/node{node}/cpulist"
    return set(listed(root.read_text(relative).strip(), root.path(relative)))


def _apart(work: Callable[[], float]) -> float:
    """In a thread of its own: where it runs and has its memory from ends with it."""
    with ThreadPoolExecutor(1) as apart:
        return apart.submit(work).result()


def _access(cpus: set[int], node: int, *, huge: bool) -> float:
    os.sched_setaffinity(0, cpus & os.sched_getaffinity(0) or cpus)
    _prefer(node)
    return max(0.0, _chase(SIZE, huge=huge) - _chase(_SMALL, huge=False))


def _prefer(node: int) -> None:
    number = _SET_MEMPOLICY.get(platform.machine())
    if number is None:
        raise InterfaceMissing("set_mempolicy", f"its number on {platform.machine()} is not known here")
    mask = (ctypes.c_ulong * 16)()
    mask[node // 64] = 1 << node % 64
    if _LIBC.syscall(ctypes.c_long(number), _PREFERRED, ctypes.byref(mask), ctypes.c_ulong(16 * 64)):
        raise InterfaceUnreadable("set_mempolicy", os.strerror(ctypes.get_errno()))


def _chase(size: int, *, huge: bool) -> float:
    """Seconds of one step through a ring of all lines of so much memory, in no order."""
    with mmap.mmap(-1, size + HUGE_PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
        pinned = ctypes.c_char.from_buffer(memory)
        address = ctypes.addressof(pinned)
        start = -address % HUGE_PAGE
        del pinned
        with suppress(OSError):  # a kernel without huge pages has small ones alone
            memory.madvise(mmap.MADV_HUGEPAGE if huge else mmap.MADV_NOHUGEPAGE, start, size)
        with memoryview(memory) as whole, whole[start : start + size] as part, part.cast("Q") as words:
            _ring(words)
            if huge and not _is_huge(address + start, size):
                raise InterfaceUnreadable("madvise", "no huge pages are free: nothing to measure")
            return min(_walk(words) for _ in range(_ROUNDS))


def _ring(words: memoryview) -> None:
    step = _LINE // words.itemsize
    order = array("Q", range(0, len(words), step))
    random.Random(1).shuffle(order)
    before = order[-1]
    for place in order:
        words[before] = place
        before = place


def _walk(words: memoryview) -> float:
    place, began = 0, time.thread_time()
    for _ in range(_STEPS):
        place = words[place]
    return (time.thread_time() - began) / _STEPS


def _is_huge(address: int, size: int) -> bool:
    """Whether nearly all of the mapping that begins there is in huge pages."""
    inside = False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        first = line.split(None, 1)[0]
        if not first.endswith(":"):
            begin, _, end = first.partition("-")
            inside = int(begin, 16) <= address < int(end, 16)
        elif inside and first == "AnonHugePages:":
            return int(line.split()[1]) * 1024 >= size - size // 8
    return False


def main() -> int:
    """Print it; 1 where it cannot be measured."""
    try:
        found = measure(KernelRoot())
    except KernelInterfaceError as error:
        print(f"not measured: {error}")
        return 1
    print(f"a small page of the own node: {found.near_small * 1e9:.0f} ns an access")
    print(f"a huge page of the own node: {found.near_huge * 1e9:.0f} ns")
    if found.far_huge is None or found.far_huge_ratio is None:
        print("there is one node: nothing is far")
    else:
        print(f"a huge page of another node: {found.far_huge * 1e9:.0f} ns")
        print(f"far_huge_ratio = {found.far_huge_ratio:.2f}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
