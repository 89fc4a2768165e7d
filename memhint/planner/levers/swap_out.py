"""Cold memory that goes to swap, to the planner."""

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
from memhint.planner.cold import cold_wishes
from memhint.planner.levers.lever import Need, PlannedLever, in_mib, in_pieces
from memhint.planner.relief.swap_out import swap_outs
from memhint.planner.splits import Splits, splits_by_swap


def _splits(
    action: Action, relief: Relief, domain: DomainObservation, estimated: DedupEstimate | None
) -> Splits | Gap | None:
    return splits_by_swap(domain, relief.swap_out[action.subject])


def _ask(need: Need, relief: Relief) -> Relief:
    """What is short while the rung is entered; else what rests, where it always holds."""
    if Rung.SWAP_OUT in need.rungs:
        return replace(relief, swap_out=swap_outs(need.candidates, need.shortage, need.settings))
    if Rung.SWAP_OUT in need.settings.always:
        return replace(relief, swap_out=cold_wishes(need.cold, need.candidates))
    return relief


def _foresee(one: DomainReport, state: LeverState, after: Mapping[str, str | None], wish: str) -> Verdict:
    if wish != Consent.ALLOW:
        detail = "never pulled; what is in swap comes back when it is touched"
        return Verdict(Answer.UNCHANGED, Reason.NONE, detail)
    if after.get("class") == QosClass.GUARANTEED:
        return Verdict(Answer.REFUSED, Reason.CONSENT, "nothing of a guaranteed VM goes to swap; set class too")
    detail = "pulled when the host is under pressure, and always where its [ladder] always has swap_out"
    return Verdict(Answer.UNCHANGED, Reason.NONE, detail)


SWAP_OUT = PlannedLever(
    name=LeverName.SWAP_OUT,
    ask=_ask,
    asked={Rung.SWAP_OUT: lambda relief: bool(relief.swap_out)},
    grows=True,
    by_relief=in_mib(LeverName.SWAP_OUT, "out"),
    takes=in_pieces(LeverName.SWAP_OUT),
    splits=_splits,
    foresee=_foresee,
)
