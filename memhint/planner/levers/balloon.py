"""Ballooning of idle VMs, to the planner."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from memhint.objects.domain import DomainObservation
from memhint.objects.estimate import DedupEstimate
from memhint.objects.gap import Gap
from memhint.objects.ladder import Rung
from memhint.objects.lever import Action, LeverName, LeverState
from memhint.objects.policy import Consent, QosClass
from memhint.objects.relief import Relief
from memhint.objects.report import DomainReport
from memhint.objects.verdict import Answer, Reason, Verdict
from memhint.planner.levers.lever import Need, PlannedLever, in_mib, in_pieces
from memhint.planner.relief.balloon import balloons
from memhint.planner.splits import Splits, splits_by_balloon


def _splits(
    action: Action, relief: Relief, domain: DomainObservation, estimated: DedupEstimate | None
) -> Splits | Gap | None:
    return splits_by_balloon(domain, relief.balloon[action.subject])


def _ask(need: Need, relief: Relief) -> Relief:
    return replace(relief, balloon=balloons(need.candidates, need.settings)) if Rung.BALLOON in need.rungs else relief


def _foresee(one: DomainReport, state: LeverState, after: Mapping[str, str | None], wish: str) -> Verdict:
    if wish != Consent.ALLOW:
        return Verdict(Answer.UNCHANGED, Reason.NONE, "never pulled; what was taken is given back")
    if after.get("class") not in (None, QosClass.BEST_EFFORT):
        return Verdict(Answer.REFUSED, Reason.CONSENT, "only VMs of the class best-effort shrink; set class too")
    if after.get("min_mb") == "0":
        return Verdict(Answer.REFUSED, Reason.LIMITS, "without a minimum nobody knows how far; set min_mb too")
    return Verdict(Answer.UNCHANGED, Reason.NONE, "pulled when the host is under pressure")


BALLOON = PlannedLever(
    name=LeverName.BALLOON,
    ask=_ask,
    asked={Rung.BALLOON: lambda relief: bool(relief.balloon)},
    by_relief=in_mib(LeverName.BALLOON, "left"),
    takes=in_pieces(LeverName.BALLOON),
    splits=_splits,
    foresee=_foresee,
)
