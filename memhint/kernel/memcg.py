"""A memory cgroup, version 1 or 2, as the budget that all VMs share.

Cgroups are named by their directory, such as ``/sys/fs/cgroup/machine.slice``, found below the root like any file.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from posixpath import dirname

from memhint.kernel.errors import InterfaceMissing
from memhint.kernel.fields import Fields, columns, number
from memhint.kernel.meminfo import in_huge_pages, machine_memory, read_meminfo
from memhint.kernel.root import PAGE_SIZE, KernelRoot
from memhint.kernel.vmstat import refaulted, swapped
from memhint.objects.host import HostMemory, Scope, SwapActivity
from memhint.objects.ranges import MOST

# v1 prints "no limit" as the largest number of whole pages; the page size decides which number that is
_V1_UNLIMITED = 1 << 62
# memory.min and memory.swap.max of "max": larger than any sum of sizes
UNLIMITED = 1 << 63


class CgroupVersion(StrEnum):
    """Which of the two interfaces a cgroup has."""

    V1 = "v1"
    V2 = "v2"


@dataclass(frozen=True, slots=True)
class _Files:
    """What the files are called."""

    marker: str  # every cgroup with a budget has it
    limits: tuple[str, ...]
    usage: str
    prefix: str  # of the names in memory.stat that count the children too
    slab: str | None
    events: str


_FILES = {
    CgroupVersion.V1: _Files(
        marker="memory.limit_in_bytes",
        limits=("memory.limit_in_bytes",),
        usage="memory.usage_in_bytes",
        prefix="total_",
        slab=None,
        events="memory.oom_control",
    ),
    CgroupVersion.V2: _Files(
        marker="memory.current",
        # above "high" the kernel throttles until the VMs stand still: for a budget that is the limit
        limits=("memory.max", "memory.high"),
        usage="memory.current",
        prefix="",
        slab="slab_reclaimable",
        events="memory.events",
    ),
}


def detect(root: KernelRoot, path: str) -> CgroupVersion:
    """The version of a cgroup.

    :raises InterfaceMissing: when the directory is no cgroup that can have a budget, as v2's root is not
    """
    for version, files in _FILES.items():
        if root.exists(f"{path}/{files.marker}"):
            return version
    raise InterfaceMissing(root.path(path), "no memory cgroup with a budget: see [host] memory_cgroup")


def cgroup_memory(root: KernelRoot, path: str) -> HostMemory:
    """The budget of a cgroup in bytes: the tightest of its own limits, its parents' and the machine's.

    What is available is the rest of the limit and what the kernel gets back without hurting anybody. As MemAvailable
    does, that leaves a part of the caches out: the inactive file pages count whole, the active ones and reclaimable
    slab by half.

    :raises InterfaceMissing: when the directory is no cgroup that can have a budget
    :raises KernelInterfaceError: when the cgroup or /proc/meminfo cannot be read or makes no sense
    """
    files = _FILES[detect(root, path)]
    fields = read_meminfo(root)
    machine = machine_memory(root, fields)
    # A cgroup does not pay for huge pages, and what their pools hold it cannot have.
    most = max(0, machine.total - (in_huge_pages(fields) or 0))
    total, available, swap_total = most, machine.available, machine.swap_total
    # Others, in this cgroup or beside it, may have used what the cgroup itself could have.
    swap_free = machine.free_swap
    for level in _lineage(root, path, files):
        limit, swap_limit = _limit(root, level, files), _swap_limit(root, level, files)
        if swap_limit is not None:
            swap_total = min(swap_total, swap_limit)
            swap_free = min(swap_free, max(0, swap_limit - _swap_used(root, level, machine)))
        # a parent without a limit bounds nothing, and its statistics are dear to read
        if limit is None and level != path:
            continue
        limit = most if limit is None else min(limit, most)
        usage = root.read_int(f"{level}/{files.usage}")
        total = min(total, limit)
        available = min(available, limit - usage + _reclaimable(_stat(root, level), files))
    return HostMemory(
        scope=Scope.CGROUP,
        total=total,
        available=max(0, min(available, total)),
        swap_total=swap_total,
        # what exceeds the total is in zram, or was there before the limit
        swap_used=min(_swap_used(root, path, machine), swap_total),
        swap_free=swap_free,
        swap_in_memory=machine.swap_in_memory,
        zswap_room=machine.zswap_room,
    )


def cgroup_swapped(root: KernelRoot, path: str) -> int | None:
    """Bytes of swap that are charged to a cgroup and its children; None where the kernel does not account them.

    A page that KSM merged is charged once, however many processes have it.

    :raises KernelInterfaceError: when the cgroup cannot be read or makes no sense
    """
    files = _FILES[detect(root, path)]
    try:
        if files is _FILES[CgroupVersion.V2]:
            return root.read_int(f"{path}/memory.swap.current")
        return _stat(root, path).number("total_swap")
    except InterfaceMissing:
        return None


def cgroup_swap_most(root: KernelRoot, path: str, own: int) -> int | None:
    """Bytes of swap that a cgroup could have at most, by its own limit and its parents'; None where nothing limits it.

    What others have of a parent's limit is theirs.

    :param own: bytes of swap that are charged to it
    :raises KernelInterfaceError: when the cgroup cannot be read or makes no sense
    """
    files = _FILES[detect(root, path)]
    found = []
    for level in _lineage(root, path, files):
        limit = _swap_limit(root, level, files)
        if limit is not None:
            used = own if level == path else cgroup_swapped(root, level) or 0
            found.append(max(0, limit - max(0, used - own)))
    return min(found, default=None)


def own_swap_limit(root: KernelRoot, path: str) -> int | None:
    """Bytes of swap that a cgroup may have by its own limit, whatever its parents' are; None where it has none.

    :raises KernelInterfaceError: when the cgroup cannot be read or makes no sense
    """
    return _swap_limit(root, path, _FILES[detect(root, path)])


def cgroup_oom_kills(root: KernelRoot, path: str) -> int:
    """Processes killed for want of memory since the cgroup was made; v1 leaves out those of its children.

    :raises KernelInterfaceError: InterfaceMissing before Linux 4.13, others when it cannot be read
    """
    relative = f"{path}/{_FILES[detect(root, path)].events}"
    return columns(root.read_text(relative), root.path(relative)).number("oom_kill")


def cgroup_swap_activity(root: KernelRoot, path: str, page_size: int = PAGE_SIZE) -> SwapActivity:
    """Bytes swapped in and out in the cgroup and its children since it was made.

    :raises InterfaceMissing: when this kernel does not count them by cgroup
    :raises KernelInterfaceError: when they cannot be read or make no sense
    """
    prefix = _FILES[detect(root, path)].prefix
    stat = _stat(root, path)
    return SwapActivity(
        swapped(stat, "in", prefix) * page_size,
        swapped(stat, "out", prefix) * page_size,
        refaulted(stat, page_size, prefix),
    )


def cgroup_faults(root: KernelRoot, path: str, page_size: int = PAGE_SIZE) -> tuple[int | None, int | None]:
    """Bytes swapped in, and bytes reclaimed and wanted again, in a cgroup and its children since it was made.

    None for what this kernel does not count by cgroup.

    :raises KernelInterfaceError: when they cannot be read or make no sense
    """
    prefix = _FILES[detect(root, path)].prefix
    stat = _stat(root, path)
    name = f"{prefix}pswpin"
    swapped_in = swapped(stat, "in", prefix) * page_size if name in stat.values else None
    return swapped_in, refaulted(stat, page_size, prefix)


def members(root: KernelRoot, path: str) -> set[int]:
    """The pids in a cgroup and in all its children.

    :raises KernelInterfaceError: when the cgroup itself cannot be read; a child that vanishes meanwhile is left out
    """
    pids = _procs(root, path)
    rest = [f"{path}/{name}" for name in root.directories(path)]
    while rest:
        child = rest.pop()
        try:
            rest += [f"{child}/{name}" for name in root.directories(child)]
            pids |= _procs(root, child)
        except InterfaceMissing:
            continue  # gone, or threaded as libvirt's vCPU cgroups are: then a parent lists the process
    return pids


def amount(root: KernelRoot, relative: str) -> int:
    """Bytes that one file of a cgroup v2 holds; UNLIMITED for its ``max``.

    :raises InterfaceMissing: when there is no such file: an older kernel, or the controller is not handed down
    :raises KernelInterfaceError: when it cannot be read or makes no sense
    """
    value = _bytes_or_none(root, relative)
    return UNLIMITED if value is None else value


def amount_text(value: int) -> str:
    """What to write for an amount."""
    return "max" if value >= UNLIMITED else str(value)


def own_limit(root: KernelRoot, path: str) -> int:
    """Bytes of memory that a cgroup v2 itself may use; UNLIMITED where nothing bounds it.

    :raises KernelInterfaceError: when a file cannot be read or makes no sense
    """
    value = _limit(root, path, _FILES[CgroupVersion.V2])
    return UNLIMITED if value is None else value


def _lineage(root: KernelRoot, path: str, files: _Files) -> Iterator[str]:
    level = path
    while True:
        yield level
        parent = dirname(level)
        if parent == level or not root.exists(f"{parent}/{files.marker}"):
            return
        level = parent


def _limit(root: KernelRoot, path: str, files: _Files) -> int | None:
    limits = [_bytes_or_none(root, f"{path}/{name}") for name in files.limits]
    return min((limit for limit in limits if limit is not None), default=None)


def _swap_limit(root: KernelRoot, path: str, files: _Files) -> int | None:
    """None: no limit, or the kernel does not account swap by cgroup."""
    try:
        if files is _FILES[CgroupVersion.V2]:
            return _if_less_than_any_host_has(_bytes_or_none(root, f"{path}/memory.swap.max"))
        both = _bytes_or_none(root, f"{path}/memory.memsw.limit_in_bytes")
    except InterfaceMissing:
        return None
    # v1 limits memory and swap together, and keeps that limit at or above the one of memory
    limit = _limit(root, path, files)
    return None if both is None or limit is None else _if_less_than_any_host_has(max(0, both - limit))


def _if_less_than_any_host_has(limit: int | None) -> int | None:
    """A limit that can limit something; no record takes one that is larger."""
    return None if limit is None or limit > MOST else limit


def _swap_used(root: KernelRoot, path: str, machine: HostMemory) -> int:
    used = cgroup_swapped(root, path)
    # not accounted by cgroup: the machine's is the upper bound
    return machine.swap_used if used is None else used


def _reclaimable(stat: Fields, files: _Files) -> int:
    inactive, active = stat.number(f"{files.prefix}inactive_file"), stat.number(f"{files.prefix}active_file")
    slab = stat.number(files.slab) if files.slab else 0
    return inactive + active // 2 + slab // 2


def _stat(root: KernelRoot, path: str) -> Fields:
    relative = f"{path}/memory.stat"
    return columns(root.read_text(relative), root.path(relative))


def _bytes_or_none(root: KernelRoot, relative: str) -> int | None:
    text = root.read_text(relative).strip()
    if text == "max":
        return None
    value = number(text, root.path(relative))
    return None if value >= _V1_UNLIMITED else value


def _procs(root: KernelRoot, path: str) -> set[int]:
    relative = f"{path}/cgroup.procs"
    where = root.path(relative)
    # 0 stands for a process outside of our pid namespace
    return {number(word, where) for word in root.read_words(relative)} - {0}
