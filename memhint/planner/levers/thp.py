"""Huge pages that are made again, to the planner's tables; who gets them is decided in `planner/thp.py`."""

from __future__ import annotations

from collections.abc import Mapping

from memhint.objects.lever import LeverName, LeverState
from memhint.objects.policy import Mode
from memhint.objects.report import DomainReport
from memhint.objects.verdict import Answer, Reason, Verdict
from memhint.planner.levers.lever import PlannedLever, in_mib
from memhint.planner.thp_cycle import next_thp


def _foresee(one: DomainReport, state: LeverState, after: Mapping[str, str | None], wish: str) -> Verdict:
    if wish == Mode.OFF:
        return Verdict(Answer.UNCHANGED, Reason.NONE, "never pulled; huge pages that there are stay")
    when = "wherever huge pages are missing" if wish == Mode.ON else "after memhint took memory from it in pieces"
    return Verdict(Answer.UNCHANGED, Reason.NONE, f"pulled while the VM works and the host is calm, {when}")


THP = PlannedLever(
    name=LeverName.THP,
    ask_last=next_thp,
    by_relief=in_mib(LeverName.THP, "of huge pages", "policy, or it was split and works again"),
    foresee=_foresee,
)
