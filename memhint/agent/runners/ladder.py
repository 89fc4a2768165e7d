"""What the pressure ladder shows beside the levers that it pulls: itself, and the VM that should be migrated."""

from __future__ import annotations

from collections.abc import Iterable

from memhint.agent.runners.runner import LeverRunner
from memhint.agent.view import HostSnapshot
from memhint.objects.lever import LeverName, LeverState, Observed
from memhint.objects.ownership import HOST
from memhint.objects.plan import Plan
from memhint.objects.verdict import Answer, Reason, Verdict
from memhint.planner.plan import Planned


class LadderShown(LeverRunner):
    """Pulls nothing: memhint migrates no VM itself."""

    names = (LeverName.MIGRATION, LeverName.LADDER)

    def pull(self, view: HostSnapshot, planned: Planned) -> None:
        """Nothing to pull."""

    def states(self, view: HostSnapshot, planned: Planned) -> Iterable[LeverState]:
        """The wish that a VM be migrated, where the ladder has come to that, and the ladder as a lever of the host."""
        if any(one.uuid == planned.plan.relief.migrate for one in view.seen.domains):
            yield _migration(planned.plan)
        yield _ladder(planned.plan)


def _ladder(plan: Plan) -> LeverState:
    """Its verdict changes with every rung that is entered or left."""
    if not plan.rungs:
        return LeverState(LeverName.LADDER, HOST, "auto", Observed.OFF, Verdict(Answer.UNCHANGED))
    rungs = ", ".join(one.rung for one in plan.rungs)
    return LeverState(LeverName.LADDER, HOST, "auto", Observed.ON, Verdict(Answer.APPLIED, Reason.PRESSURE, rungs))


def _migration(plan: Plan) -> LeverState:
    why = plan.rungs[-1].why if plan.rungs else "pressure"
    verdict = Verdict(Answer.PENDING, Reason.PRESSURE, f"migrate it to another host: {why}")
    return LeverState(LeverName.MIGRATION, plan.relief.migrate or "", "another host", Observed.OFF, verdict)
