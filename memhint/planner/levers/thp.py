"""Huge pages that are made again, to the planner's tables; who gets them is decided in `planner/thp.py`."""

from __future__ import annotations

from collections.abc import Mapping

from memhint.objects.domain import DomainObservation, DomainState
from memhint.objects.lever import LeverName, LeverState, Observed
from memhint.objects.policy import Mode
from memhint.objects.report import DomainReport
from memhint.objects.verdict import Answer, Reason, Verdict
from memhint.planner.levers.lever import PlannedLever, in_mib
from memhint.planner.thp import huge_seen, not_this_vm, small_pages
from memhint.planner.thp_cycle import next_thp


def _foresee(one: DomainReport, state: LeverState, after: Mapping[str, str | None], wish: str) -> Verdict:
    if wish == Mode.OFF:
        return Verdict(Answer.UNCHANGED, Reason.NONE, "never pulled; huge pages that there are stay")
    if state.verdict.answer is Answer.UNSUPPORTED:
        return state.verdict  # what stands in the way may be the host's, which knows it alone
    refusal = not_this_vm(one.observation) or small_pages(one.observation)
    if refusal is not None:
        return refusal
    if wish == Mode.ON:
        when = "while the host is calm and nothing takes pieces of it, wherever huge pages are missing"
    else:
        when = "while the VM works and the host is calm, after memhint took memory from it in pieces"
    return Verdict(Answer.UNCHANGED, Reason.NONE, f"pulled {when}")


def _appears(domain: DomainObservation, wish: str) -> Observed | None:
    """Who wants huge pages is asked in every calm cycle, while it runs."""
    runs = domain.state is DomainState.RUNNING and domain.process is not None
    return huge_seen(domain) if runs and wish == Mode.ON else None


THP = PlannedLever(
    name=LeverName.THP,
    ask_last=next_thp,
    by_relief=in_mib(LeverName.THP, "of huge pages", "policy, or it was split and works again"),
    appears=_appears,
    foresee=_foresee,
)
