"""Makes the report of one cycle: pure, of what was seen, planned and pulled."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from memhint.agent.parts import Identity
from memhint.agent.reclaimable import reclaimable_of, returned
from memhint.agent.view import HostSnapshot
from memhint.objects.domain import DomainObservation
from memhint.objects.estimate import DedupEstimate
from memhint.objects.gap import Gap, GapReason
from memhint.objects.lever import LeverState
from memhint.objects.levers import place_of
from memhint.objects.ownership import HOST
from memhint.objects.provider import NovaCompute
from memhint.objects.report import POLICY, Cost, DomainReport, Report
from memhint.planner.plan import Planned
from memhint.planner.settings import PlannerSettings


def report_of(
    identity: Identity,
    sequence: int,
    settings: PlannerSettings,
    slot: int,
    view: HostSnapshot,
    planned: Planned,
    states: Iterable[LeverState],
    estimated: DedupEstimate | None,
    cost: Cost,
    nova: tuple[NovaCompute | None, Iterable[Gap]],
    growth: int,
) -> Report:
    """The report.

    :param slot: bytes of the VM that further places are counted in, overhead included
    :param states: of every lever, in any order
    :param nova: which compute this host is to Nova, and why that is not all known
    :param growth: version of the growth table that was planned by; 0: there is none
    """
    by_subject: dict[str, list[LeverState]] = {}
    for state in sorted(states, key=lambda one: place_of(one.lever)):
        by_subject.setdefault(state.subject, []).append(state)
    return Report(
        host=identity.host,
        epoch=identity.epoch,
        sequence=sequence,
        at=view.at,
        period=settings.period,
        slot=slot,
        observation=view.seen.host,
        domains=tuple(
            _domain(one, view, planned, tuple(by_subject.get(one.uuid, ())), estimated) for one in view.seen.domains
        ),
        levers=tuple(by_subject.get(HOST, ())),
        plan=planned.plan,
        cost=cost,
        gaps=(*view.seen.gaps, *view.gaps, *nova[1]),
        nova=nova[0],
        slot_overhead=settings.overhead,
        dedup=estimated,
        agent=identity.version,
        growth=growth,
    )


def _domain(
    one: DomainObservation,
    view: HostSnapshot,
    planned: Planned,
    levers: tuple[LeverState, ...],
    estimated: DedupEstimate | None,
) -> DomainReport:
    why = view.unreadable.get(one.uuid)
    shown = one if why is None else replace(one, gaps=(*one.gaps, Gap(POLICY, GapReason.MALFORMED, why)))
    return DomainReport(
        shown,
        view.policies[one.uuid],
        returned(one, planned.state.past.get(one.uuid)),
        reclaimable_of(one, levers, estimated),
        levers,
        planned.state.merging_of(one, planned.state.at or 0.0),
    )
