"""Ballooning of idle VMs, to the planner."""

from __future__ import annotations

from dataclasses import replace

from memhint.objects.domain import DomainObservation
from memhint.objects.estimate import DedupEstimate
from memhint.objects.gap import Gap
from memhint.objects.ladder import Rung
from memhint.objects.lever import Action, LeverName
from memhint.objects.relief import Relief
from memhint.planner.levers.lever import Need, PlannedLever, in_mib, in_pieces, with_consent
from memhint.planner.relief.balloon import balloons
from memhint.planner.splits import Splits, splits_by_balloon


def _splits(
    action: Action, relief: Relief, domain: DomainObservation, estimated: DedupEstimate | None
) -> Splits | Gap | None:
    return splits_by_balloon(domain, relief.balloon[action.subject])


def _ask(need: Need, relief: Relief) -> Relief:
    return replace(relief, balloon=balloons(need.candidates, need.settings)) if Rung.BALLOON in need.rungs else relief


BALLOON = PlannedLever(
    name=LeverName.BALLOON,
    ask=_ask,
    asked={Rung.BALLOON: lambda relief: bool(relief.balloon)},
    by_relief=in_mib(LeverName.BALLOON, "left"),
    takes=in_pieces(LeverName.BALLOON),
    splits=_splits,
    foresee=with_consent,
)
