"""What is known of one VM: its definition, its process on the host, and what its guest says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from memhint.objects.active import ActiveMemory
from memhint.objects.discarded import BalloonReporting, ReportingCheck
from memhint.objects.gap import Gap
from memhint.objects.guest import GuestKernel, GuestMemory
from memhint.objects.ranges import Count, Identity, Moment, Seconds, Size
from memhint.objects.words import Word

DEFINITION, PROCESS = "definition", "process"  # as gaps name them


class DomainState(Word):
    """libvirt's states, as far as they matter for memory."""

    RUNNING = "running"
    PAUSED = "paused"
    SHUTOFF = "shutoff"
    INCOMING = "incoming"  # memory is still arriving by migration
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class DomainFacts:
    """What the domain's XML says. Changes only when the XML does."""

    memory: Size  # bytes plugged: <memory>, hotplugged DIMMs included
    persistent: bool = True
    project: str | None = None  # Nova's project, from its metadata
    flavor_specs: Mapping[str, str] = field(default_factory=dict)  # "memhint:…" extra specs only
    policy: Mapping[str, str] = field(default_factory=dict)  # our own metadata element
    balloon: bool = False
    reporting_offered: bool = False  # freePageReporting='on' in the live XML
    deflate_on_oom: bool = False  # autodeflate='on': the guest takes back what it needs before it kills
    stats_period: int = 0  # seconds, 0: the balloon statistics are off
    hugepages: bool = False  # some or all of it is on explicit huge pages, or may be
    hugetlb: Size = 0  # bytes of ``memory`` that the host's pools of huge pages hold
    locked: bool = False
    no_share_pages: bool = False
    shared_memory: bool = False  # memfd or file backed: KSM cannot merge it
    vfio: bool = False  # a PCI, mdev or vDPA device is passed through
    confidential: bool = False
    guest_agent: bool = False  # the XML has the guest agent's channel
    realtime: bool = False  # a virtual CPU or the emulator runs under fifo or rr
    file_backed: bool = False
    numa_strict: bool = False  # may have memory of certain nodes of the host only
    numa_nodes: tuple[int, ...] = ()  # those, where the XML names them
    numa_most: tuple[Size, ...] = ()  # bytes that may come to lie on each of them; empty where the XML does not tell
    os: str | None = None  # libosinfo's name of the guest's system, or "windows" where Hyper-V is imitated for one


@dataclass(frozen=True, slots=True)
class ProcessMemory:
    """The QEMU process, from reads cheap enough for every cycle. Bytes."""

    pid: int
    start_ticks: int  # with the pid, names one QEMU process for ever
    rss: Size
    swap: Size
    ksm_merging: Size | None = None  # pages merged now, in bytes
    ksm_zero: Size | None = None  # pages replaced by the zero page, in bytes
    ksm_partition: Count | None = None  # KSM merges it with processes of the same one; None: the kernel has none
    cpu: Seconds | None = None  # of processor time, of all its threads since it began; None: not read
    faults: Count | None = None  # page faults that needed no disk, since it began; merged pages break by one
    zero_other: Size = 0  # for which the zero page stands without KSM, when last looked at; 0 where nobody looks
    small_pages: bool | None = None  # it was started to have no transparent huge pages; None: the kernel does not say

    @property
    def footprint(self) -> int:
        """U: what the VM would cost without dedup and swap."""
        return self.rss + self.swap + (self.ksm_zero or 0) + self.zero_other

    @property
    def instance(self) -> str:
        """A name for this very process, for marks that must not outlive it."""
        return f"{self.pid}:{self.start_ticks}"


@dataclass(frozen=True, slots=True)
class GuestMappings:
    """A guest's memory by the size of the entries with which KVM maps it. Bytes."""

    small: Size
    huge: Size  # 2 MiB
    giant: Size  # 1 GiB

    @property
    def huge_coverage(self) -> float | None:
        """The part that huge entries map, 0 to 1; None where nothing is mapped."""
        whole = self.small + self.huge + self.giant
        return (self.huge + self.giant) / whole if whole else None


@dataclass(frozen=True, slots=True)
class DeepMemory:
    """The QEMU process, from reads that cost about 10 ms per GiB. Bytes, as of ``at`` (unix seconds)."""

    at: Moment
    pss: Size
    rss: Size  # at the same moment, so that the PSS can be carried forward
    anon_huge: Size
    by_node: Mapping[int, Size] = field(default_factory=dict)
    cpus_by_node: Mapping[int, Count] = field(default_factory=dict)  # virtual CPUs, by the node on which each ran last
    mappings: GuestMappings | None = None  # None: this host's kernel does not say
    zero_other: Size | None = None  # for which the zero page stands, and KSM does not count it; None: before Linux 6.7

    @property
    def remote(self) -> float | None:
        """The part of its memory that a virtual CPU has to fetch from another node, 0 to 1; None where it is not known.

        On the average of its CPUs, as if each used all of the memory alike.
        """
        memory, cpus = sum(self.by_node.values()), sum(self.cpus_by_node.values())
        if not memory or not cpus:
            return None
        near = sum(self.by_node.get(node, 0) * count for node, count in self.cpus_by_node.items())
        return max(0.0, 1.0 - near / (memory * cpus))

    def on_fast(self, tiers: Sequence[Sequence[int]]) -> float | None:
        """The part of its memory on the nodes of the first tier, 0 to 1; None where one tier is all that is known."""
        whole = sum(self.by_node.values())
        if len(tiers) < 2 or not whole:
            return None
        return sum(self.by_node.get(node, 0) for node in tiers[0]) / whole

    def huge_coverage(self, rss: int) -> float:
        """The part of the resident memory that huge pages back, 0 to 1."""
        return min(1.0, self.anon_huge / rss) if rss > 0 else 0.0


@dataclass(frozen=True, slots=True)
class DomainObservation:
    """Everything seen of one VM in one cycle."""

    uuid: Identity
    name: str
    state: DomainState
    facts: DomainFacts
    process: ProcessMemory | None = None
    deep: DeepMemory | None = None
    guest: GuestMemory | None = None
    guest_kernel: GuestKernel | None = None
    balloon_actual: Size | None = None  # bytes the balloon leaves the guest
    gaps: tuple[Gap, ...] = ()
    balloon_reporting: BalloonReporting | None = None  # only of a QEMU that counts, where monitor commands are allowed
    reporting_check: ReportingCheck | None = None
    active: ActiveMemory | None = None

    @property
    def defined(self) -> bool:
        """Whether its facts are by its definition, and that as it is now."""
        return not any(gap.what == DEFINITION for gap in self.gaps)

    @property
    def footprint(self) -> int | None:
        """U in bytes, None when the process could not be read."""
        return self.process.footprint if self.process else None

    @property
    def resident(self) -> int | None:
        """Bytes of host memory behind the VM now: for display, never for admission.

        The last PSS, moved by what RSS moved since; RSS while no PSS was read.
        """
        if self.process is None:
            return None
        if self.deep is None:
            return self.process.rss
        return max(0, self.deep.pss + self.process.rss - self.deep.rss)
