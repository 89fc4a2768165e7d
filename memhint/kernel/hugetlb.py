"""/sys/kernel/mm/hugepages: the pools of explicit huge pages, and what /proc/meminfo says of all of them."""

from __future__ import annotations

import re

from memhint.kernel.errors import InterfaceMissing
from memhint.kernel.meminfo import in_huge_pages, read_meminfo
from memhint.kernel.root import KernelRoot
from memhint.objects.host import HugetlbPool
from memhint.objects.units import KIB

_DIRECTORY = "sys/kernel/mm/hugepages"
_POOL = re.compile(r"hugepages-(\d{1,12})kB", re.ASCII)


def hugetlb_pools(root: KernelRoot) -> tuple[HugetlbPool, ...]:
    """The pools by page size, smallest first, surplus pages included; a kernel without them has none.

    :raises KernelInterfaceError: when a pool cannot be read or makes no sense
    """
    return tuple(_pool(root, size) for size in _sizes(root, _DIRECTORY))


def node_pools(root: KernelRoot, node: int) -> int:
    """Bytes that the pools hold of a NUMA node's memory, surplus pages included; a kernel without pools has none.

    :raises KernelInterfaceError: when a pool cannot be read or makes no sense
    """
    folder = f"sys/devices/system/node/node{node}/hugepages"
    return sum(size * KIB * root.read_int(f"{folder}/hugepages-{size}kB/nr_hugepages") for size in _sizes(root, folder))


def all_pools(root: KernelRoot) -> tuple[HugetlbPool, ...]:
    """One pool with the memory of all, in pages of a KiB; what of it is free is not known, and counts as taken.

    Empty where the kernel does not say (before Linux 4.19).

    :raises KernelInterfaceError: when it cannot be read or makes no sense
    """
    held = in_huge_pages(read_meminfo(root))
    return () if held is None else (HugetlbPool(KIB, held // KIB, 0),)


def _sizes(root: KernelRoot, folder: str) -> list[int]:
    """The page sizes of the pools in a folder, in KiB, the smallest first."""
    try:
        names = root.names(folder)
    except InterfaceMissing:
        return []
    return sorted(int(match[1]) for name in names if (match := _POOL.fullmatch(name)))


def _pool(root: KernelRoot, size: int) -> HugetlbPool:
    pool = f"{_DIRECTORY}/hugepages-{size}kB"
    return HugetlbPool(size * KIB, root.read_int(f"{pool}/nr_hugepages"), root.read_int(f"{pool}/free_hugepages"))
