"""zswap: a pool in memory that the kernel compresses pages into before, or instead of, writing them to disk swap.

A page in it has its place on the disk as well, and so looks like swapped, but is in memory.
"""

from __future__ import annotations

from memhint.kernel.errors import InterfaceMalformed, InterfaceMissing
from memhint.kernel.fields import Fields, number
from memhint.kernel.root import KernelRoot

_PARAMETERS = "sys/module/zswap/parameters"
_OF_ONE = "memory.zswap.max"


def zswap_enabled(root: KernelRoot) -> bool:
    """Whether pages that are swapped out go there first.

    :raises KernelInterfaceError: when that cannot be read or makes no sense
    """
    name = f"{_PARAMETERS}/enabled"
    try:
        text = root.read_text(name).strip()
    except InterfaceMissing:
        return False  # built without it
    if text not in ("Y", "N"):
        raise InterfaceMalformed(root.path(name), f"{text[:40]!r} is neither Y nor N")
    return text == "Y"


def zswap_room(root: KernelRoot, meminfo: Fields) -> int:
    """Bytes of memory that the pool may still come to take: 0 while it is not enabled.

    What it has taken already counts among what is not available. Before Linux 5.19 that is not told, and taken for 0.

    :raises KernelInterfaceError: when its parameters cannot be read or make no sense
    """
    if not zswap_enabled(root):
        return 0
    name = f"{_PARAMETERS}/max_pool_percent"
    most = meminfo.kib("MemTotal") * min(100, number(root.read_text(name).strip(), root.path(name))) // 100
    taken = meminfo.kib("Zswap") if "Zswap" in meminfo.values else 0
    return max(0, most - taken)


def kept_out(root: KernelRoot, cgroups: tuple[str, ...]) -> bool:
    """Whether nothing of a cgroup goes there: its own limit is 0, or that of one above it.

    :param cgroups: paths of the cgroup and those above it
    :raises KernelInterfaceError: when a limit cannot be read
    """
    return any(root.read_text(f"{one}/{_OF_ONE}").strip() == "0" for one in cgroups if root.exists(f"{one}/{_OF_ONE}"))
