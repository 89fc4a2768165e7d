"""Memory moved between NUMA nodes, to the planner's tables; what is moved is decided in `planner/tiering.py`."""

from __future__ import annotations

from collections.abc import Mapping

from memhint.objects.lever import LeverName, LeverState
from memhint.objects.policy import Consent
from memhint.objects.policy_values import part_of
from memhint.objects.report import DomainReport
from memhint.objects.verdict import Answer, Reason, Verdict
from memhint.planner.host_cycle import HostCycle
from memhint.planner.levers.lever import PlannedLever
from memhint.planner.state import PlannerState
from memhint.planner.tiering import TieringPlan, not_this_vm, plan_tiering


def _foresee(one: DomainReport, state: LeverState, after: Mapping[str, str | None], wish: str) -> Verdict:
    if wish != Consent.ALLOW:
        return Verdict(Answer.UNCHANGED, Reason.NONE, "nothing is moved any more; pages stay where they are")
    size = one.observation.facts.memory
    least, most = part_of(after.get("fast_min") or "", size), part_of(after.get("fast_max") or "", size)
    if least is not None and most is not None and least > most:
        return Verdict(Answer.REFUSED, Reason.LIMITS, "fast_min is more than fast_max; make it smaller")
    refusal = not_this_vm(one.observation)
    if refusal is not None:
        return refusal
    return Verdict(Answer.UNCHANGED, Reason.NONE, "moved by how it is used, where the host has nodes to move it to")


def _plan(cycle: HostCycle, state: PlannerState) -> tuple[TieringPlan, PlannerState]:
    return plan_tiering(cycle.domains, cycle.policies, cycle.unread), state


TIERING = PlannedLever(name=LeverName.TIERING, plan_host=_plan, foresee=_foresee)
