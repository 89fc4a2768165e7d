"""Valid records for tests: every function has defaults, so that a test names only what it is about."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from memhint.objects.active import ActiveMemory, ActiveSource, Idle
from memhint.objects.discarded import Agreement, BalloonReporting, Ranges, ReportingCheck
from memhint.objects.domain import DeepMemory, DomainFacts, DomainObservation, DomainState, GuestMappings, ProcessMemory
from memhint.objects.estimate import DedupEstimate, FinderRound, GroupEstimate, KsmCost, VmEstimate
from memhint.objects.gap import Gap, GapReason
from memhint.objects.guest import GuestKernel, GuestMemory, GuestSource
from memhint.objects.host import (
    HostMemory,
    HostObservation,
    HugeActivity,
    HugetlbPool,
    Ksm,
    NumaNode,
    Pressure,
    Scope,
    SwapActivity,
    Thp,
)
from memhint.objects.lever import Action, LeverName, LeverState, Observed
from memhint.objects.merging import Merging
from memhint.objects.ownership import HOST, Mark
from memhint.objects.plan import Bound, Capacity, Demand, DemandReason, Plan, PressureVerdict
from memhint.objects.policy import Origin, Policy, effective
from memhint.objects.reclaim import ReclaimRequest
from memhint.objects.recycler import RecyclerCounters
from memhint.objects.report import Cost, DomainReport, Reclaimable, Report
from memhint.objects.units import GIB, MIB
from memhint.objects.verdict import Answer, Reason, Verdict

NOW = 1_700_000_000.0  # unix seconds
WEB = "6f1d3c2a-0000-4000-8000-000000000001"
DB = "6f1d3c2a-0000-4000-8000-000000000002"
OLD = "6f1d3c2a-0000-4000-8000-000000000003"


def host_memory(**changes: Any) -> HostMemory:
    base = HostMemory(Scope.MACHINE, total=64 * GIB, available=40 * GIB, swap_total=8 * GIB, swap_used=0)
    return replace(base, **changes)


def pressure(**changes: Any) -> Pressure:
    return replace(Pressure(Scope.MACHINE, 0.5, 0.25, 0.0, 123_456), **changes)


def ksm(**changes: Any) -> Ksm:
    base = Ksm(
        run=1,
        pages_shared=1000,
        pages_sharing=25_600,
        zero_pages=2560,
        general_profit=90 * MIB,
        full_scans=7,
        pages_to_scan=100,
        sleep_millisecs=20,
        use_zero_pages=True,
        advisor="scan-time",
        cow_breaks=12_000,
    )
    return replace(base, **changes)


def host_observation(**changes: Any) -> HostObservation:
    base = HostObservation(
        at=NOW,
        memory=host_memory(),
        page_size=4096,
        pressure=pressure(),
        swap=SwapActivity(0, 0),
        ksm=ksm(),
        thp=Thp("madvise", "madvise", 511),
        oom_kills=0,
        hugetlb=(HugetlbPool(2 * MIB, 0, 0),),
        numa=(NumaNode(0, 64 * GIB, 30 * GIB),),
        huge=HugeActivity(7000, 30, 40, 9, 5, 12),
        free_huge={0: 28 * GIB},
        tiers=((0,), (1,)),
    )
    return replace(base, **changes)


def facts(**changes: Any) -> DomainFacts:
    base = DomainFacts(memory=4 * GIB, balloon=True, reporting_offered=True, stats_period=10, guest_agent=True)
    return replace(base, **changes)


def process(**changes: Any) -> ProcessMemory:
    return replace(
        ProcessMemory(
            4242, 1000, rss=2 * GIB, swap=0, ksm_merging=50 * MIB, ksm_zero=10 * MIB, cpu=500.0, faults=70_000
        ),
        **changes,
    )


def guest_memory(**changes: Any) -> GuestMemory:
    base = GuestMemory(
        GuestSource.PROC,
        at=NOW - 4,
        total=4000 * MIB,
        free=2500 * MIB,
        available=3000 * MIB,
        cached=500 * MIB,
        free_by_order=(4 * MIB, 8 * MIB),
    )
    return replace(base, **changes)


def domain_observation(**changes: Any) -> DomainObservation:
    base = DomainObservation(
        uuid=WEB,
        name="web-1",
        state=DomainState.RUNNING,
        facts=facts(),
        process=process(),
        deep=DeepMemory(
            NOW - 30,
            pss=1900 * MIB,
            rss=2 * GIB,
            anon_huge=1 * GIB,
            by_node={0: 1900 * MIB},
            cpus_by_node={0: 2},
            mappings=GuestMappings(500 * MIB, 1500 * MIB, 0),
        ),
        guest=guest_memory(),
        guest_kernel=GuestKernel(NOW - 4, "6.12.1", "boot-1", 9, "virtio3", True, True),
        balloon_actual=4 * GIB,
        active=ActiveMemory(
            NOW - 5,
            ActiveSource.DAMON,
            2 * GIB,
            (Idle(10, 1500 * MIB, NOW - 5), Idle(60, 1 * GIB, NOW - 5), Idle(600, 512 * MIB, NOW - 5)),
            0.2,
            40 * MIB,
        ),
    )
    return replace(base, **changes)


def recycler_counters(**changes: Any) -> RecyclerCounters:
    base = RecyclerCounters(
        negotiated=True,
        workers=1,
        pieces=32,
        described=4 * GIB,
        passes=9,
        recycled=300 * MIB,
        lost=1 * MIB,
        failed=0,
        left=8 * MIB,
    )
    return replace(base, **changes)


def balloon_reporting(
    discarded: int = 600 * MIB, at: float = NOW - 2, *, inhibited: int = 0, **changes: Any
) -> BalloonReporting:
    """QEMU's counters: what was reported is the sum of what was discarded and what was kept."""
    none = Ranges(0, 0)
    base = BalloonReporting(
        at=at,
        enabled=True,
        negotiated=True,
        reported=Ranges(7, discarded + inhibited),
        discarded=Ranges(6, discarded),
        skipped_inhibited=Ranges(1, inhibited),
        skipped_poison=none,
        skipped_unaligned=none,
        skipped_invalid=none,
        failed=none,
        last_report=NOW - 3,
    )
    return replace(base, **changes)


def reporting_check(**changes: Any) -> ReportingCheck:
    base = ReportingCheck("4242:1000", "boot-1", NOW - 60, NOW - 2, 500 * MIB, 600 * MIB, 400 * MIB, Agreement.AGREES)
    return replace(base, **changes)


def policy(inputs: dict[Origin, dict[str, str]] | None = None) -> Policy:
    return effective(inputs or {})


def lever_state(**changes: Any) -> LeverState:
    base = LeverState(LeverName.REPORTING, WEB, "auto", Observed.ON, Verdict(Answer.UNCHANGED))
    return replace(base, **changes)


def domain_report(**changes: Any) -> DomainReport:
    observation = changes.pop("observation", None) or domain_observation()
    base = DomainReport(
        observation=observation,
        policy=policy(),
        returned=1 * GIB,
        reclaimable=(Reclaimable(LeverName.REPORTING, 300 * MIB, GuestSource.PROC, NOW - 4),),
        levers=(
            lever_state(subject=observation.uuid),
            lever_state(lever=LeverName.DEDUP, subject=observation.uuid, desired="off", observed=Observed.OFF),
        ),
        merging=Merging(merged=60 * MIB, breaks=300, life=3072.0),
    )
    return replace(base, **changes)


def idle_domain() -> DomainReport:
    """A VM that is shut off: nothing is known of it, and nothing can come back."""
    observation = domain_observation(
        uuid=OLD,
        name="old",
        state=DomainState.SHUTOFF,
        facts=facts(memory=2 * GIB),
        process=None,
        deep=None,
        guest=None,
        guest_kernel=None,
        balloon_actual=None,
        gaps=(Gap("process", GapReason.GONE, "is not running"),),
    )
    verdict = Verdict(Answer.UNCHANGED)
    return domain_report(
        observation=observation,
        returned=None,
        reclaimable=(Reclaimable(LeverName.REPORTING, None, GuestSource.HOST, None),),
        levers=(lever_state(subject=OLD, observed=Observed.UNKNOWN, verdict=verdict),),
    )


def refused_domain() -> DomainReport:
    """A VM whose reporting should be off and may not be touched."""
    observation = domain_observation(uuid=DB, name="db-1", process=process(pid=4343), guest=None, guest_kernel=None)
    detail = "the guest may not be changed; memhint set db-1 guest_actions=allow"
    return domain_report(
        observation=observation,
        policy=policy({Origin.OPERATOR: {"reporting": "off"}}),
        levers=(
            lever_state(
                subject=DB, desired="off", observed=Observed.ON, verdict=Verdict(Answer.REFUSED, Reason.CONSENT, detail)
            ),
            lever_state(
                lever=LeverName.DEDUP,
                subject=DB,
                desired="off",
                observed=Observed.UNSUPPORTED,
                verdict=Verdict(Answer.UNCHANGED),
            ),
        ),
    )


def capacity(**changes: Any) -> Capacity:
    base = Capacity(
        pool=64 * GIB,
        reserve=4 * GIB,
        other=2 * GIB,
        assigned=50 * GIB,
        footprint=20 * GIB,
        resident=20 * GIB,
        want=30 * GIB,
        spare=4 * GIB,
        backing=8 * GIB,
        model=24 * GIB,
        now=22 * GIB,
        back=16 * GIB,
        headroom=16 * GIB,
        bound=Bound.BACK,
    )
    return replace(base, **changes)


def demand(**changes: Any) -> Demand:
    base = Demand(WEB, 4 * GIB + 128 * MIB, 2058 * MIB, 2200 * MIB, DemandReason.FORECAST, "decaying peak")
    return replace(base, **changes)


def plan(**changes: Any) -> Plan:
    base = Plan(
        capacity=capacity(),
        demands=(
            demand(),
            demand(uuid=DB, reason=DemandReason.NEW, demand=4 * GIB, detail="seen for 5 s"),
            demand(uuid=OLD, assigned=2 * GIB, footprint=0, demand=2 * GIB, reason=DemandReason.STOPPED, detail=""),
        ),
        pressure=PressureVerdict(True),
        actions=(Action(LeverName.REPORTING, DB, "off", "asked for by operator"),),
    )
    return replace(base, **changes)


def dedup_estimate() -> DedupEstimate:
    """Two VMs of one project that have much in common, and one that was not looked at."""
    vms = (
        VmEstimate(WEB, NOW - 60, 2 * GIB, zero=100 * MIB, within=20 * MIB, across=300 * MIB, changed=50 * MIB),
        VmEstimate(DB, NOW - 30, 2 * GIB, zero=50 * MIB, within=10 * MIB, across=300 * MIB, changed=0),
    )
    cost = KsmCost(metadata=64 * MIB, cpu_percent=4.0, scan_seconds=200.0)
    group = GroupEstimate(
        "p1", (WEB, DB), NOW - 60, 4 * GIB, 150 * MIB, 30 * MIB, 600 * MIB, 780 * MIB, error=20 * MIB, cost=cost
    )
    finder = FinderRound(
        NOW - 60,
        elapsed=20.0,
        workers=2,
        compiled=True,
        read=8 * GIB,
        index=2 * MIB,
        candidates=800 * MIB,
        without_partner=20 * MIB,
        cpu=4.0,
    )
    return DedupEstimate(vms, (group,), (group,), (OLD,), cpu=5.0, elapsed=1000.0, finder=finder)


def report(**changes: Any) -> Report:
    base = Report(
        host="host-a",
        epoch="epoch-1",
        sequence=7,
        at=NOW,
        period=10.0,
        slot=1152 * MIB,
        observation=host_observation(),
        domains=(domain_report(), refused_domain(), idle_domain()),
        levers=(lever_state(lever=LeverName.DEDUP, subject=HOST, desired="off", observed=Observed.OFF),),
        plan=plan(),
        cost=Cost(cpu=0.02, wall=0.1, deep_reads=1, rss=70 * MIB),
        gaps=(Gap("libvirt", GapReason.PENDING, "connecting"),),
    )
    return replace(base, **changes)


def mark(**changes: Any) -> Mark:
    return replace(Mark(WEB, "merge", "true", "false", "4242:1000", NOW), **changes)


def reclaim_request(**changes: Any) -> ReclaimRequest:
    base = ReclaimRequest(
        id="req-1",
        uuid=WEB,
        size=None,
        psi_limit=10.0,
        timeout=60.0,
        reason="by hand",
        by="operator root",
        at=NOW,
        expires=NOW + 60,
    )
    return replace(base, **changes)
