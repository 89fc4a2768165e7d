"""Single free pages that QEMU takes, to the planner."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from memhint.objects.domain import DomainObservation
from memhint.objects.estimate import DedupEstimate
from memhint.objects.gap import Gap
from memhint.objects.ladder import Rung
from memhint.objects.lever import Action, LeverName, LeverState
from memhint.objects.policy import Mode, Policy
from memhint.objects.relief import Relief
from memhint.objects.report import DomainReport
from memhint.objects.verdict import Answer, Reason, Verdict
from memhint.planner.levers.lever import Need, PlannedLever, in_mib, in_pieces, with_next_report
from memhint.planner.relief.recycler import recyclers
from memhint.planner.splits import Splits, splits_by_free


def _splits(
    action: Action, relief: Relief, domain: DomainObservation, estimated: DedupEstimate | None
) -> Splits | Gap | None:
    return splits_by_free(domain)


def _foresee(one: DomainReport, state: LeverState, after: Mapping[str, str | None], wish: str) -> Verdict:
    if wish == Mode.AUTO:
        return Verdict(Answer.UNCHANGED, Reason.NONE, "pulled while the VM is idle, on its rung")
    return Verdict(Answer.UNCHANGED) if wish == state.observed else with_next_report(one, state, after, wish)


def _wished(policy: Policy) -> bool:
    return policy.recycler is Mode.ON


def _ask(need: Need, relief: Relief) -> Relief:
    return replace(relief, recycler=recyclers(need.rungs, need.candidates, need.settings))


RECYCLER = PlannedLever(
    name=LeverName.RECYCLER,
    wished=_wished,
    takes_singles=True,
    ask=_ask,
    asked={Rung.RECYCLER: lambda relief: bool(relief.recycler)},
    by_relief=in_mib(LeverName.RECYCLER, "a second", "policy, or {}"),
    takes=in_pieces(LeverName.RECYCLER),
    leaves_holes=True,
    only_free=True,
    splits=_splits,
    foresee=_foresee,
)
