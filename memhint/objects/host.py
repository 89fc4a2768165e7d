"""What the host's kernel says of the host. Bytes unless a name says otherwise; None is a gap, never 0."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from memhint.objects.gap import Gap, GapReason
from memhint.objects.ranges import Count, Moment, Percent, Size
from memhint.objects.words import Word


class Scope(Word):
    """What the budget is: the whole machine, or one memory cgroup that holds every VM."""

    MACHINE = "machine"
    CGROUP = "cgroup"


@dataclass(frozen=True, slots=True)
class HostMemory:
    """The memory that VMs and everything else share."""

    scope: Scope
    total: Size
    available: Size
    swap_total: Size  # usable disk swap in this scope; zram counts 0
    swap_used: Size
    swap_free: Size | None = None  # what of it is unused, here and in every cgroup above; None in older reports
    swap_in_memory: Size = 0  # swapped to zram or a RAM disk of the machine, before compression
    zswap_room: Size = 0  # memory that zswap may still take for what is swapped out

    @property
    def free_swap(self) -> int:
        """Usable disk swap that is unused."""
        return max(0, self.swap_total - self.swap_used) if self.swap_free is None else self.swap_free


@dataclass(frozen=True, slots=True)
class Pressure:
    """Pressure stall information. Averages in percent of wall time, total in microseconds."""

    scope: Scope
    some_avg10: Percent
    some_avg60: Percent
    full_avg10: Percent
    some_total_us: Count


@dataclass(frozen=True, slots=True)
class SwapActivity:
    """Bytes moved since boot; the planner makes rates of two of these."""

    swapped_in: Count
    swapped_out: Count
    refaulted: Count | None = None  # reclaimed and wanted again soon; None where the kernel does not count it


@dataclass(frozen=True, slots=True)
class VmsCgroup:
    """What the kernel counts of the VMs alone: the smallest cgroup that holds all of their QEMUs."""

    path: str  # its directory
    swap: Size | None = None  # bytes of swap that are charged to it, in memory or on a disk
    pressure: Pressure | None = None
    swapped_in: Count | None = None  # bytes since the cgroup was made
    refaulted: Count | None = None
    swap_most: Size | None = None  # bytes of swap that it may have; None: nothing limits it


@dataclass(frozen=True, slots=True)
class SwapLimit:
    """What the QEMUs of these VMs may have in swap together: the limit of a cgroup that holds them."""

    most: Size
    vms: tuple[str, ...]  # UUIDs


@dataclass(frozen=True, slots=True)
class Ksm:
    """Kernel same-page merging on this host."""

    run: int  # 0 stopped, 1 running, 2 stopped and everything unmerged
    pages_shared: Size
    pages_sharing: Size
    zero_pages: Size | None  # None: the kernel does not count them (before 6.12)
    general_profit: int | None  # bytes, negative when KSM costs more than it saves
    full_scans: int
    pages_to_scan: int
    sleep_millisecs: int
    use_zero_pages: bool
    advisor: str | None  # "none", "scan-time"; None before 6.8
    cow_breaks: Count | None = None  # merged pages that were written to, since boot; None: the kernel does not count
    partitions: bool = False  # it can keep groups of processes apart
    empty_only: bool | None = None  # it merges empty pages only; None: the kernel has no such mode

    def saving(self, page_size: int) -> int:
        """Bytes that would come back as demand if every page were written to."""
        return (self.pages_sharing + (self.zero_pages or 0)) * page_size


@dataclass(frozen=True, slots=True)
class HugetlbPool:
    """One pool of explicit huge pages: memory that no other VM can have."""

    page_size: Size
    pages: Size
    free_pages: Size


@dataclass(frozen=True, slots=True)
class NumaNode:
    """One node's memory."""

    node: int
    total: Size
    free: Size
    file: Size = 0  # page cache: the kernel frees it when somebody needs it
    kept: Size = 0  # of what is free, what the kernel gives to nobody without making room first
    hugetlb: Size = 0  # of the total, what its pools of huge pages hold, used or not

    @property
    def pool(self) -> int:
        """Bytes that VMs on ordinary pages and everything else share."""
        return max(0, self.total - self.hugetlb)


@dataclass(frozen=True, slots=True)
class Thp:
    """Transparent huge pages: the chosen words of the two sysfs switches."""

    enabled: str
    defrag: str
    max_ptes_none: Count | None = None  # absent pages of a huge page that khugepaged fills; None: it is not there


@dataclass(frozen=True, slots=True)
class HugeActivity:
    """How huge pages came and went, and what the kernel did for them. Events since boot; two of these make a rate."""

    fault_alloc: Count  # a first touch got a huge page
    fault_fallback: Count  # it wanted one, and got a small page
    compact_stall: Count  # somebody, khugepaged too, waited while the kernel moved pages to make room for a large block
    compact_fail: Count  # ... in vain
    split: Count  # huge pages that were split
    collapsed: Count  # huge pages that were made of small ones
    khugepaged_rounds: Count | None = None  # khugepaged was through all memory; None: it is not there
    khugepaged_collapsed: Count | None = None  # huge pages that it made
    collapse_failed: Count | None = None  # none was free to make of small ones, by khugepaged or `madvise`


@dataclass(frozen=True, slots=True)
class HostObservation:
    """Everything seen of the host in one cycle. ``at`` is unix seconds."""

    at: Moment
    memory: HostMemory
    page_size: Size
    pressure: Pressure | None = None
    swap: SwapActivity | None = None
    ksm: Ksm | None = None
    thp: Thp | None = None
    oom_kills: int | None = None  # since boot, or since the cgroup was made
    hugetlb: tuple[HugetlbPool, ...] = ()
    numa: tuple[NumaNode, ...] = ()
    gaps: tuple[Gap, ...] = ()
    huge: HugeActivity | None = None
    free_huge: Mapping[int, Size] = field(default_factory=dict)  # by node, free in blocks of a huge page and larger
    vms: VmsCgroup | None = None  # None where no cgroup holds the VMs and not everything else, too
    swap_limits: tuple[SwapLimit, ...] = ()  # of all cgroups that hold VMs; those of one hold all or none of another's
    tiers: tuple[tuple[int, ...], ...] = ()  # nodes with memory, the fastest first; one tier where all are alike

    @property
    def hugetlb_bytes(self) -> int:
        """What the explicit pools hold, used or not."""
        return sum(pool.page_size * pool.pages for pool in self.hugetlb)

    @property
    def pool(self) -> int:
        """Bytes that VMs on ordinary pages and everything else share. A memory cgroup does not pay for huge pages."""
        taken = self.hugetlb_bytes if self.memory.scope is Scope.MACHINE else 0
        return max(0, self.memory.total - taken)

    def unread(self, what: str) -> bool:
        """Whether a part may be there that nobody could look at; what the kernel does not have is not there."""
        return any(gap.what == what and gap.reason is not GapReason.UNSUPPORTED for gap in self.gaps)

    @property
    def ksm_saving(self) -> int:
        """Bytes KSM saves on this host now; a write storm brings them back."""
        return self.ksm.saving(self.page_size) if self.ksm else 0
