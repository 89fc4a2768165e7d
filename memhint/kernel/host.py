"""Everything seen of the host in one cycle, joined; what is missing becomes a gap."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TypeVar

from memhint.kernel.buddy import free_in_blocks
from memhint.kernel.errors import InterfaceMissing, KernelInterfaceError
from memhint.kernel.hugetlb import all_pools, hugetlb_pools
from memhint.kernel.ksm import read_ksm
from memhint.kernel.memcg import cgroup_memory, cgroup_oom_kills, cgroup_swap_activity
from memhint.kernel.meminfo import machine_memory
from memhint.kernel.numa import Watermarks, numa_nodes, watermarks
from memhint.kernel.psi import read_pressure
from memhint.kernel.root import PAGE_SIZE, KernelRoot
from memhint.kernel.swap import swap_activity
from memhint.kernel.thp import HUGE_PAGE, huge_activity, read_thp
from memhint.kernel.tiers import memory_tiers
from memhint.kernel.vmstat import oom_kills
from memhint.objects.gap import Gap
from memhint.objects.host import HostMemory, HostObservation, NumaNode, SwapActivity

T = TypeVar("T")


def observe_host(
    root: KernelRoot,
    at: float,
    *,
    memory_cgroup: str | None = None,
    pressure_cgroup: str | None = None,
    page_size: int = PAGE_SIZE,
) -> HostObservation:
    """The host as of ``at`` (unix seconds), in bytes.

    ``memory_cgroup`` is the cgroup whose memory is the budget, None means the machine. Without ``pressure_cgroup`` the
    pressure is the machine's, and its scope says so.

    :raises KernelInterfaceError: when the memory itself cannot be read; every other failure is a gap
    """
    memory = read_memory(root, memory_cgroup)
    gaps: list[Gap] = []

    def part(what: str, read: Callable[[], T]) -> T | None:
        try:
            return read()
        except KernelInterfaceError as error:
            gaps.append(error.gap(what))
            return None

    pools = part("hugetlb", lambda: hugetlb_pools(root))
    if pools is None:
        # Their memory is not there for others because a file of theirs is not.
        pools = all_pools(root)
    return HostObservation(
        at=at,
        memory=memory,
        page_size=page_size,
        pressure=part("pressure", lambda: read_pressure(root, pressure_cgroup)),
        swap=part("swap", lambda: _swap(root, memory_cgroup, page_size)),
        ksm=part("ksm", lambda: read_ksm(root)),
        thp=part("thp", lambda: read_thp(root)),
        oom_kills=part("oom_kills", lambda: _oom_kills(root, memory_cgroup)),
        hugetlb=pools,
        numa=_nodes(part("numa", lambda: numa_nodes(root)) or (), part("watermarks", lambda: watermarks(root)) or {}),
        tiers=part("memory_tiers", lambda: _tiers(root)) or (),
        huge=part("huge_activity", lambda: huge_activity(root)),
        free_huge=part("free_huge", lambda: free_in_blocks(root, HUGE_PAGE, page_size)) or {},
        gaps=tuple(gaps),  # last: the parts above fill it
    )


def read_memory(root: KernelRoot, memory_cgroup: str | None = None) -> HostMemory:
    """The budget alone: cheap enough to look at every second.

    :raises KernelInterfaceError: when it cannot be read
    """
    return machine_memory(root) if memory_cgroup is None else cgroup_memory(root, memory_cgroup)


def _nodes(nodes: tuple[NumaNode, ...], marks: Mapping[int, Watermarks]) -> tuple[NumaNode, ...]:
    return tuple(replace(one, kept=marks[one.node].high) if one.node in marks else one for one in nodes)


def _tiers(root: KernelRoot) -> tuple[tuple[int, ...], ...]:
    try:
        return memory_tiers(root)
    except InterfaceMissing:
        return ()  # without NUMA, which is a gap of its own


def _swap(root: KernelRoot, memory_cgroup: str | None, page_size: int) -> SwapActivity:
    if memory_cgroup is not None:
        try:
            return cgroup_swap_activity(root, memory_cgroup, page_size)
        except InterfaceMissing:
            # most kernels count it for the machine only; that holds the cgroup's, so it errs on the safe side
            pass
    return swap_activity(root, page_size)


def _oom_kills(root: KernelRoot, memory_cgroup: str | None) -> int:
    return oom_kills(root) if memory_cgroup is None else cgroup_oom_kills(root, memory_cgroup)
