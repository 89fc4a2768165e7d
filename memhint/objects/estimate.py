"""What merging equal pages would save and cost, before it is switched on. Bytes unless said otherwise."""

from __future__ import annotations

from dataclasses import dataclass

from memhint.objects.ranges import Moment


@dataclass(frozen=True, slots=True)
class VmEstimate:
    """One VM's part. ``zero``, ``within`` and ``across`` exclude each other, and add up over the VMs of a group."""

    uuid: str
    at: Moment  # unix seconds: when looking at its pages began
    looked: int  # present memory that was read, and what KSM has replaced by the zero page
    zero: int  # pages of zeros
    within: int  # copies of a page that the VM has itself
    across: int  # its share of the copies of a page that another VM of the group has
    changed: int  # not the same at the last look: KSM leaves it alone, and it counts nowhere above. The finder tells
    # only of pages that had a partner

    @property
    def saving(self) -> int:
        """What merging would take off this VM."""
        return self.zero + self.within + self.across


@dataclass(frozen=True, slots=True)
class KsmCost:
    """What KSM takes for a group that it scans."""

    metadata: int  # 64 bytes for each page scanned, as the kernel's general_profit counts it
    cpu_percent: float  # of one core, while it scans
    scan_seconds: float  # one scan of all the group's memory


@dataclass(frozen=True, slots=True)
class GroupEstimate:
    """VMs that may merge with each other: those of one project."""

    project: str | None  # None: a VM of unknown project, by itself; or all VMs, where crossing projects is allowed
    members: tuple[str, ...]  # UUIDs
    at: Moment  # unix seconds of its oldest part
    looked: int
    zero: int
    within: int
    across: int
    saving: int  # zero, within and across, less what max_page_sharing keeps apart
    error: int  # by sampling: ``saving`` is this exact in 95 of 100 cases
    cost: KsmCost

    @property
    def profit(self) -> int:
        """The kernel's general_profit as it may be expected: what is saved, less KSM's metadata."""
        return self.saving - self.cost.metadata

    @property
    def sure(self) -> int:
        """What merging saves at least, metadata paid, with what sampling may have got wrong taken off."""
        return self.profit - self.error


@dataclass(frozen=True, slots=True)
class FinderRound:
    """How the finder looked at a group, where it made the estimate: at every page."""

    at: Moment  # unix seconds: when it began
    elapsed: float  # seconds
    workers: int
    compiled: bool  # by C; otherwise by Python, which is slow
    read: int  # at all looks
    index: int  # memory that it took
    candidates: int  # the same at two looks, and with a partner as far as its index could tell
    without_partner: int  # of them: no other page has their content
    cpu: float  # seconds


@dataclass(frozen=True, slots=True)
class DedupEstimate:
    """All that is estimated on one host."""

    vms: tuple[VmEstimate, ...] = ()
    groups: tuple[GroupEstimate, ...] = ()  # by project: every VM that was looked at
    asking: tuple[GroupEstimate, ...] = ()  # by project: those of them that ask for merging, by on or auto
    waiting: tuple[str, ...] = ()  # UUIDs of VMs that could merge and have not been looked at yet
    cpu: float = 0.0  # seconds of CPU that looking took, since the agent started
    elapsed: float = 0.0  # seconds since then
    finder: FinderRound | None = None  # its newest round; None: the estimate is made of samples
    failed: tuple[str, ...] = ()  # UUIDs of those of ``waiting`` that could not be looked at when it was tried last

    def asking_of(self, project: str | None) -> GroupEstimate | None:
        """The estimate for those VMs of a project that ask."""
        return next((one for one in self.asking if one.project == project), None)
