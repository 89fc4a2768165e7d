"""One cycle of one host, as it is published, stored and shown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta

from memhint.objects.domain import DomainObservation
from memhint.objects.estimate import DedupEstimate
from memhint.objects.gap import Gap
from memhint.objects.guest import GuestSource
from memhint.objects.host import HostObservation
from memhint.objects.lever import LeverName, LeverState
from memhint.objects.merging import Merging
from memhint.objects.plan import Plan
from memhint.objects.policy import Policy
from memhint.objects.provider import NovaCompute
from memhint.objects.ranges import Count, Identity, Moment, Period, Size, Slot

POLICY = "policy"  # the gap of a VM of which a wish cannot be read
DOMAINS_MAX = 4096  # VMs of one host
STALE_PERIODS = 3  # older than this many periods, a report counts for nothing


@dataclass(frozen=True, slots=True)
class Reclaimable:
    """What could still come back by one lever. Bytes; None is unknown, not 0."""

    lever: LeverName
    at_most: Size | None
    source: GuestSource
    at: Moment | None  # unix seconds of the observation behind it


@dataclass(frozen=True, slots=True)
class DomainReport:
    """One VM: what was seen, what holds for it, what came back and what still could."""

    observation: DomainObservation
    policy: Policy
    returned: Size | None  # bytes the host saw come back since the process's peak
    reclaimable: tuple[Reclaimable, ...]
    levers: tuple[LeverState, ...]
    merging: Merging | None = None  # None: nothing of it is merged, and it is not left alone

    @property
    def careful(self) -> bool:
        """Whether its host found a wish that it cannot read, and so withdraws every consent."""
        return any(gap.what == POLICY for gap in self.observation.gaps)


@dataclass(frozen=True, slots=True)
class Cost:
    """What the agent itself took. CPU in seconds of this process within the cycle, memory in bytes."""

    cpu: float
    wall: float
    deep_reads: int
    rss: int


@dataclass(frozen=True, slots=True)
class Report:
    """A host in one cycle. ``epoch`` is one agent's life, ``sequence`` counts its cycles: together they fence."""

    host: Identity
    epoch: Identity
    sequence: Count
    at: Moment  # unix seconds
    period: Period  # seconds
    slot: Slot  # bytes of the VM that slots are counted in, overhead included
    observation: HostObservation
    domains: Annotated[tuple[DomainReport, ...], Meta(max_length=DOMAINS_MAX)]
    levers: tuple[LeverState, ...]  # the host's own
    plan: Plan
    cost: Cost
    gaps: tuple[Gap, ...] = ()
    nova: NovaCompute | None = None  # the nova-compute of this host; None where there is none
    slot_overhead: Size = 0  # bytes of ``slot`` that QEMU takes
    dedup: DedupEstimate | None = None  # what merging would save; None where nothing estimates it
    agent: str | None = None  # the version of memhint that made it
    growth: Count | None = None  # version of its growth table, 0: none yet; None: it knows of no such tables

    def age(self, now: float) -> float:
        """Seconds since it was made."""
        return max(0.0, now - self.at)

    def stale(self, now: float) -> bool:
        """True once it must not be used for admission any more, also where the clock was set back since it was made."""
        return abs(now - self.at) > STALE_PERIODS * self.period


class ReportError(ValueError):
    """A report whose parts do not fit each other; the text says which."""


def check_report(report: Report) -> Report:
    """The report itself, once what its types cannot say holds: their ranges are checked where it is read.

    :raises ReportError: when it does not
    """
    if report.slot_overhead > report.slot:
        raise ReportError("its slot is smaller than what QEMU takes of it")
    return report
