"""One line of each host and each VM: what lists show, sort by and add up. Made of a report, and of nothing else."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import chain

from memhint.objects.domain import PROCESS, DomainState
from memhint.objects.gap import Gap, GapReason
from memhint.objects.ladder import Rung
from memhint.objects.levers import LEVERS
from memhint.objects.plan import Bound, Demand, DemandReason
from memhint.objects.report import DomainReport, Report
from memhint.objects.tier_sizing import Load, load_of

RECLAIMABLE = tuple(
    sorted(
        (one.name for one in LEVERS.values() if one.summed), key=lambda name: list(Rung).index(LEVERS[name].rungs[0])
    )
)
"""The levers of which a host's line has a sum, by their rungs."""
HOST_SORT_KEYS = (
    "name",
    "headroom",
    "nominal_headroom",
    "pool",
    "assigned",
    "footprint",
    "resident",
    "available",
    "swap_used",
    "ksm_saving",
    "want",
    "spare",
    "psi",
    "reported",
    "unreported",
    "returned",
    "domains",
    "gaps",
)
DOMAIN_SORT_KEYS = (
    "name",
    "host",
    "assigned",
    "resident",
    "footprint",
    "demand",
    "free",
    "unreported",
    "reported",
    "shared",
    "swap",
    "returned",
    "reclaimable",
)


class Freshness(StrEnum):
    """How far a host's newest report may be relied on."""

    FRESH = "fresh"
    STALE = "stale"  # older than three periods: counts for nothing
    SILENT = "silent"  # the same, and the controllers have said so


@dataclass(frozen=True, slots=True)
class HostSummary:
    """A host in one line. Bytes; times in unix seconds or seconds, ``psi`` in percent; None is unknown, never 0.

    The sums over VMs (``reported``, ``unreported``, ``returned``, ``reclaimable``) are of those that are known, and
    None where none is. ``at`` is by the host's own clock, ``heard`` by the database's.
    """

    name: str
    provider: str | None  # the compute node's UUID
    forced_ratio: float | None  # that nova-compute writes to Placement by itself
    state: Freshness
    epoch: str
    sequence: int
    at: float
    heard: float
    period: float
    agent: str | None  # version
    pool: int
    reserve: int
    assigned: int
    footprint: int
    resident: int
    available: int
    swap_used: int
    ksm_saving: int | None
    want: int
    spare: int
    headroom: int
    bound: Bound
    nominal_headroom: int
    slot: int
    slot_overhead: int  # QEMU's part of it
    slots: int
    nominal_slots: int
    admitting: bool
    detail: str
    psi: float | None
    reported: int | None
    unreported: int | None
    returned: int | None
    reclaimable: Mapping[str, int | None]  # by lever
    rungs: tuple[str, ...]
    domains: int
    gaps: int  # of the host and its VMs, without what it or a guest does not have
    load: Load | None  # of the VMs; None where of none is known what it uses

    def as_of(self, silent: bool, now: float, stale_periods: float) -> HostSummary:
        """The same, seen at ``now``: what is stale promises no more than accounting by assigned memory would."""
        # What lies as far ahead was heard before the database's clock was set back, and nothing was since.
        if not silent and abs(now - self.heard) <= stale_periods * self.period:
            return self
        headroom = max(0, min(self.headroom, self.nominal_headroom))
        return replace(
            self,
            state=Freshness.SILENT if silent else Freshness.STALE,
            headroom=headroom,
            bound=Bound.STALE,
            slots=headroom // self.slot,
        )


@dataclass(frozen=True, slots=True)
class DomainSummary:
    """A VM in one line. Bytes; ``at`` is its host's newest report, in unix seconds. None is unknown, never 0."""

    uuid: str
    name: str
    host: str
    project: str | None
    state: DomainState
    qos: str  # its class
    assigned: int
    resident: int | None
    footprint: int | None
    demand: int | None
    demand_reason: str | None
    free: int | None
    reported: int | None
    unreported: int | None
    shared: int | None  # merged with other memory, or with the zero page
    swap: int | None
    returned: int | None
    reclaimable: int | None  # the sum of what is known, over the levers
    source: str  # of what the guest says
    agreement: str | None  # how its word stands to what the host saw
    at: float


def host_summary(report: Report, heard: float) -> HostSummary:
    """A fresh host's line."""
    capacity, seen = report.plan.capacity, report.observation
    guests = [one.observation.guest for one in report.domains]
    gaps = chain(report.gaps, seen.gaps, *(one.observation.gaps for one in report.domains))
    return HostSummary(
        name=report.host,
        provider=report.nova.provider if report.nova else None,
        forced_ratio=report.nova.forced_ratio if report.nova else None,
        state=Freshness.FRESH,
        epoch=report.epoch,
        sequence=report.sequence,
        at=report.at,
        heard=heard,
        period=report.period,
        agent=report.agent,
        pool=capacity.pool,
        reserve=capacity.reserve,
        assigned=_assigned(report),
        footprint=capacity.footprint,
        resident=capacity.resident,
        available=seen.memory.available,
        swap_used=seen.memory.swap_used,
        ksm_saving=seen.ksm_saving if seen.ksm else None,
        want=capacity.want,
        spare=capacity.spare,
        headroom=capacity.headroom,
        bound=capacity.bound,
        nominal_headroom=capacity.nominal_headroom(),
        slot=report.slot,
        slot_overhead=report.slot_overhead,
        slots=capacity.slots(report.slot),
        nominal_slots=capacity.nominal_slots(report.slot),
        admitting=report.plan.pressure.admitting,
        detail=report.plan.pressure.detail,
        psi=seen.pressure.some_avg10 if seen.pressure else None,
        reported=_sum(one.reported for one in guests if one is not None),
        unreported=_sum(one.unreported for one in guests if one is not None),
        returned=_sum(one.returned for one in report.domains),
        reclaimable={
            str(lever): _sum(
                item.at_most
                for one in report.domains
                if one.observation.state is DomainState.RUNNING
                for item in one.reclaimable
                if item.lever is lever
            )
            for lever in RECLAIMABLE
        },
        rungs=tuple(str(one.rung) for one in report.plan.rungs),
        domains=len(report.domains),
        gaps=sum(map(is_fault, gaps)),
        load=load_of([one.observation for one in report.domains], capacity.pool - capacity.reserve),
    )


def lacking(domains: Iterable[DomainReport]) -> int:
    """How many VMs have gaps that are faults."""
    return sum(any(map(is_fault, one.observation.gaps)) for one in domains)


def is_fault(gap: Gap) -> bool:
    """Whether a value could be had. What is not there stays as it is; but each VM has a process, wherever it is."""
    return gap.reason is not GapReason.UNSUPPORTED or gap.what == PROCESS


def _assigned(report: Report) -> int:
    """What the VMs were given: their memory, and for each the overhead.

    A VM's A is more where it uses more, as a QEMU does that takes more than the overhead. That was given to nobody, and
    who compares the sum with Nova's claims must not take it for a VM that is in the sum already.
    """
    given = report.plan.capacity.assigned
    if report.agent is None and not report.slot_overhead:  # of before agents told either
        return given
    memory = {one.observation.uuid: one.observation.facts.memory for one in report.domains}  # 0: its size is not known
    beyond = sum(
        max(0, one.assigned - memory[one.uuid] - report.slot_overhead)
        for one in report.plan.demands
        if memory.get(one.uuid) and one.reason is not DemandReason.OUTSIDE
    )
    return max(0, given - beyond)


def domain_summaries(report: Report) -> list[DomainSummary]:
    """A line of each VM of a host."""
    demands = {one.uuid: one for one in report.plan.demands}
    return [_domain(report, one, demands.get(one.observation.uuid)) for one in report.domains]


def _domain(report: Report, one: DomainReport, demand: Demand | None) -> DomainSummary:
    seen = one.observation
    guest, process, check = seen.guest, seen.process, seen.reporting_check
    return DomainSummary(
        uuid=seen.uuid,
        name=seen.name,
        host=report.host,
        project=seen.facts.project or one.policy.project,
        state=seen.state,
        qos=str(one.policy.qos),
        assigned=seen.facts.memory,
        resident=seen.resident,
        footprint=seen.footprint,
        demand=demand.demand if demand else None,
        demand_reason=str(demand.reason) if demand else None,
        free=guest.free if guest else None,
        reported=guest.reported if guest else None,
        unreported=guest.unreported if guest else None,
        shared=_sum((process.ksm_merging, process.ksm_zero)) if process else None,
        swap=process.swap if process else None,
        returned=one.returned,
        reclaimable=_sum(item.at_most for item in one.reclaimable),
        source=str(guest.source) if guest else "host",
        agreement=str(check.agreement) if check else None,
        at=report.at,
    )


def _sum(sizes: Iterable[int | None]) -> int | None:
    known = [size for size in sizes if size is not None]
    return sum(known) if known else None
