"""Memory tiers: which NUMA nodes are fast, and which are slower (CXL, persistent memory), by /sys.

Linux 6.1 groups nodes by what firmware tells of them. Before that a node without processors counts as slow.
"""

from __future__ import annotations

import re

from memhint.kernel.errors import InterfaceMissing
from memhint.kernel.fields import listed
from memhint.kernel.root import KernelRoot

_TIERS = "sys/devices/virtual/memory_tiering"
_TIER = re.compile(r"memory_tier(\d{1,9})", re.ASCII)
_NODES = "sys/devices/system/node"
_BALANCING = "proc/sys/kernel/numa_balancing"
_MEMORY_TIERING = 2  # a bit of numa_balancing


def memory_tiers(root: KernelRoot) -> tuple[tuple[int, ...], ...]:
    """The nodes with memory by tier, the fastest first. One tier where all are alike.

    :raises InterfaceMissing: when the kernel is built without NUMA
    :raises KernelInterfaceError: when a file cannot be read or makes no sense
    """
    with_memory = _nodes(root, "has_memory")
    try:
        # a smaller number is a smaller distance
        found = sorted((int(match[1]), name) for name in root.names(_TIERS) if (match := _TIER.fullmatch(name)))
        tiers = [_list(root, f"{_TIERS}/{name}/nodelist") & with_memory for _, name in found]
    except InterfaceMissing:
        tiers = []
    if set().union(*tiers) != with_memory:
        near = with_memory & _nodes(root, "has_cpu")
        tiers = [near, with_memory - near]
    return tuple(tuple(sorted(tier)) for tier in tiers if tier)


def kernel_tiers(root: KernelRoot) -> bool:
    """Whether the kernel itself moves memory between tiers by how it is used (numa_balancing of 2 or 3).

    :raises KernelInterfaceError: when it cannot be read; it is not there without NUMA balancing, which is False
    """
    try:
        return bool(root.read_int(_BALANCING) & _MEMORY_TIERING)
    except InterfaceMissing:
        return False


def _nodes(root: KernelRoot, name: str) -> frozenset[int]:
    return _list(root, f"{_NODES}/{name}")


def _list(root: KernelRoot, relative: str) -> frozenset[int]:
    return frozenset(listed(root.read_text(relative).strip(), root.path(relative)))
