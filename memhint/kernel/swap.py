"""/proc/swaps and the swap counters of /proc/vmstat: where pages could go, and how many went."""

from __future__ import annotations

import re
from dataclasses import dataclass

from memhint.kernel.errors import InterfaceMalformed
from memhint.kernel.fields import number, signed_number
from memhint.kernel.root import PAGE_SIZE, KernelRoot
from memhint.kernel.vmstat import read_vmstat, refaulted, swapped
from memhint.objects.host import SwapActivity
from memhint.objects.units import KIB

_PATH = "proc/swaps"
# swap on these lives in the very memory it is meant to relieve
_IN_MEMORY = re.compile(r"/dev/(?:.*/)?z?ram\d+")


@dataclass(frozen=True, slots=True)
class SwapArea:
    """One line of /proc/swaps. Bytes; ``name`` is as the kernel shows it, with white space escaped."""

    name: str
    file: bool  # a file in a file system, not a device
    total: int
    used: int
    priority: int  # the kernel fills the highest first
    in_memory: bool  # zram or a RAM disk


@dataclass(frozen=True, slots=True)
class DiskSwap:
    """Swap that lies outside the memory, and what is swapped into the memory itself. Bytes."""

    total: int
    used: int
    in_memory: int = 0  # used of zram and RAM disks


def swap_areas(root: KernelRoot) -> tuple[SwapArea, ...]:
    """All swap partitions and files in use.

    :raises InterfaceMissing: when the kernel is built without swap
    :raises KernelInterfaceError: when the table cannot be read or makes no sense
    """
    path = root.path(_PATH)
    lines = root.read_text(_PATH).split("\n")
    if not lines[0].startswith("Filename"):
        raise InterfaceMalformed(path, "no heading")
    areas = []
    for line in lines[1:]:
        # the kernel escapes white space in the name, so every column is one word
        words = line.split()
        if not words:
            continue
        if len(words) != 5:
            raise InterfaceMalformed(path, f"{line[:80]!r} has not five columns")
        size, in_use = number(words[2], path) * KIB, number(words[3], path) * KIB
        if in_use > size:
            raise InterfaceMalformed(path, f"{words[0]} uses {in_use} of {size} bytes")
        in_memory = _IN_MEMORY.fullmatch(words[0]) is not None
        priority = signed_number(words[4], path)
        areas.append(SwapArea(words[0], words[1] == "file", size, in_use, priority, in_memory))
    return tuple(areas)


def disk_swap(root: KernelRoot) -> DiskSwap:
    """The sum of all swap partitions and files; zram and RAM disks count 0.

    :raises InterfaceMissing: when the kernel is built without swap
    :raises KernelInterfaceError: when the table cannot be read or makes no sense
    """
    areas = swap_areas(root)
    disks = [area for area in areas if not area.in_memory]
    in_memory = sum(area.used for area in areas if area.in_memory)
    return DiskSwap(sum(area.total for area in disks), sum(area.used for area in disks), in_memory)


def swap_activity(root: KernelRoot, page_size: int = PAGE_SIZE) -> SwapActivity:
    """Bytes swapped in and out on the whole machine since boot; traffic to zram and zswap is part of it.

    :raises KernelInterfaceError: when the counters are missing or make no sense
    """
    vmstat = read_vmstat(root)
    return SwapActivity(
        swapped(vmstat, "in") * page_size, swapped(vmstat, "out") * page_size, refaulted(vmstat, page_size)
    )
