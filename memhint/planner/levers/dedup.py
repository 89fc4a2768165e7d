"""Merging of equal pages, to the planner's tables; who merges is decided in `planner/dedup.py`."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from memhint.objects.counted import counted
from memhint.objects.domain import DomainObservation
from memhint.objects.estimate import DedupEstimate
from memhint.objects.gap import Gap
from memhint.objects.guest import GuestSource
from memhint.objects.ladder import Rung
from memhint.objects.lever import Action, LeverName, LeverState, Observed
from memhint.objects.ownership import HOST
from memhint.objects.policy import Mode, Policy
from memhint.objects.relief import Relief
from memhint.objects.report import DomainReport, Reclaimable
from memhint.objects.verdict import Answer, Reason, Verdict
from memhint.planner.dedup import DedupPlan, not_this_vm
from memhint.planner.dedup_cycle import next_dedup
from memhint.planner.host_cycle import HostPlans
from memhint.planner.levers.lever import Need, PlannedLever, with_next_report
from memhint.planner.splits import Splits, splits_by_merging


def _members(
    domains: Sequence[DomainObservation], policies: Mapping[str, Policy], plans: HostPlans
) -> Iterable[Action]:
    """Out first, in last, so that no VM merges without having opted in; without a member there is nothing to do."""
    dedup: DedupPlan = plans[LeverName.DEDUP]
    if not dedup.members:
        return
    for one in domains:
        if one.uuid not in dedup.members:
            yield Action(LeverName.DEDUP, one.uuid, Mode.OFF, "did not opt in, or may not")
    for uuid in sorted(dedup.members):
        why = "the estimate says that it pays" if uuid in dedup.auto.members else "opted in"
        yield Action(LeverName.DEDUP, uuid, Mode.ON, why)
    yield Action(LeverName.DEDUP, HOST, Mode.ON, counted(len(dedup.members), "VM merges", "VMs merge"))


def _takes(relief: Relief, plans: HostPlans) -> Collection[str]:
    dedup: DedupPlan = plans[LeverName.DEDUP]
    return dedup.members


def _splits(
    action: Action, relief: Relief, domain: DomainObservation, estimated: DedupEstimate | None
) -> Splits | Gap | None:
    return splits_by_merging(domain, estimated) if action.desired == Mode.ON else None


def by_dedup(domain: DomainObservation, observed: Observed, estimated: DedupEstimate | None) -> Reclaimable:
    """What merging could bring back by the estimate; of a VM that merges already, how much is left is not known."""
    parts = estimated.vms if estimated is not None else ()
    part = next((one for one in parts if one.uuid == domain.uuid), None)
    if part is None or domain.process is None or domain.process.ksm_merging or domain.process.ksm_zero:
        return Reclaimable(LeverName.DEDUP, None, GuestSource.HOST, None)
    return Reclaimable(LeverName.DEDUP, part.saving, GuestSource.HOST, part.at)


def _foresee(one: DomainReport, state: LeverState, after: Mapping[str, str | None], wish: str) -> Verdict:
    if wish == state.observed:
        return Verdict(Answer.UNCHANGED)
    # How many nodes the host has is not in a VM's report: a VM that is bound to some learns with the next one.
    unfit = not_this_vm(one.observation, one.policy, 1) if wish != Mode.OFF else None
    if unfit is not None:
        return unfit
    if wish != Mode.OFF and not (one.observation.facts.project or after.get("project")):
        return Verdict(Answer.REFUSED, Reason.NO_PROJECT, "its project is not known; set project too")
    return with_next_report(one, state, after, wish)


def _ask(need: Need, relief: Relief) -> Relief:
    return replace(relief, dedup=Rung.DEDUP in need.rungs)


DEDUP = PlannedLever(
    name=LeverName.DEDUP,
    plan_host=next_dedup,
    ask=_ask,
    asked={Rung.DEDUP: lambda relief: relief.dedup},
    by_policy=_members,
    takes=_takes,
    leaves_holes=True,
    splits=_splits,
    reclaimable=by_dedup,
    foresee=_foresee,
)
