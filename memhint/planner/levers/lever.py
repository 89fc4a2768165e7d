"""What the planner knows of one lever: what it is asked for, what that costs a VM, and what it could bring back."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from memhint.objects.domain import DomainObservation
from memhint.objects.estimate import DedupEstimate
from memhint.objects.gap import Gap
from memhint.objects.ladder import Rung
from memhint.objects.lever import Action, LeverName, LeverState, Observed
from memhint.objects.policy import Policy
from memhint.objects.relief import Relief
from memhint.objects.report import DomainReport, Reclaimable
from memhint.objects.verdict import Answer, Reason, Verdict
from memhint.planner.cold import Cold
from memhint.planner.host_cycle import HostCycle, HostPlans, Taken
from memhint.planner.relief.candidate import Candidate
from memhint.planner.settings import LadderSettings
from memhint.planner.splits import Splits
from memhint.planner.state import PlannerState

NEXT = "with the host's next report"


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """What a host needs in one cycle, and who may be asked for it."""

    rungs: frozenset[Rung]
    """Those that are entered."""
    settings: LadderSettings
    candidates: Sequence[Candidate]
    shortage: int
    """Bytes that must become available before the host is calm."""
    migrate: str | None
    """Whom somebody was asked to move before."""
    cold: Mapping[str, Cold]
    """What is known to rest, by QEMU process."""
    singles: Collection[str] = ()
    """UUIDs of VMs whose single free pages one of the levers takes."""


def _none(*_: Any) -> tuple[Any, ...]:
    return ()


def _the_same(need: Need, relief: Relief) -> Relief:
    return relief


def _nothing(*_: Any) -> None:
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedLever:
    """One lever. What it leaves out does not concern it."""

    name: LeverName
    plan_host: Callable[[HostCycle, PlannerState], tuple[Any, PlannerState]] | None = None
    """Its plan for all VMs of the host together, and the state with what it remembers in it."""
    by_policy: Callable[[Sequence[DomainObservation], Mapping[str, Policy], HostPlans], Iterable[Action]] = _none
    """What policy asks for."""
    wished: Callable[[Policy], bool] | None = None
    """Whether a VM's policy alone asks for it, while the host is calm."""
    takes_singles: bool = False
    """Whether it takes single free pages of the VMs that it is asked for, so that no other lever need ask for those."""
    ask: Callable[[Need, Relief], Relief] = _the_same
    """The relief with what is asked for of this lever in it."""
    ask_last: Callable[[HostCycle, Taken, PlannerState], tuple[Relief, PlannerState]] | None = None
    """The same for what depends on what all others take, and the state with what it remembers in it."""
    asked: Mapping[Rung, Callable[[Relief], bool]] = field(default_factory=dict)
    """The rungs on which VMs are asked for it, and whether any of them is."""
    grows: bool = False
    """Whether more can be asked for under pressure of those that were asked while the host was calm."""
    by_relief: Callable[[Relief, str], Iterable[Action]] = _none
    """What the ladder asks for, and why."""
    takes: Callable[[Relief, HostPlans], Collection[str]] = _none
    """UUIDs of the VMs from which it takes less than a huge page at a time."""
    leaves_holes: bool = False
    """Whether what it takes is a hole that khugepaged would fill again."""
    only_free: bool = False
    """Whether it takes only what is free in the guest: what the guest works with stays whole, once it is so again."""
    splits: Callable[[Action, Relief, DomainObservation, DedupEstimate | None], Splits | Gap | None] = _nothing
    """What an action does to a VM's huge pages."""
    reclaimable: Callable[[DomainObservation, Observed, DedupEstimate | None], Reclaimable] | None = None
    """What it could still bring back of a VM."""
    appears: Callable[[DomainObservation, str], Observed | None] = _nothing
    """What is seen of it, where such a wish brings it into the reports of a VM that do not have it yet."""
    foresee: Callable[[DomainReport, LeverState, Mapping[str, str | None], str], Verdict] | None = None
    """What becomes of it under another policy; the last argument is the value of the key that wishes it."""


def in_mib(name: LeverName, what: str, says: str | None = None) -> Callable[[Relief, str], Iterable[Action]]:
    """The actions of a lever that is asked for bytes of VMs.

    :param what: what they are, after the number of MiB
    :param says: why, where the ladder alone does not say it; ``{}`` stands for what the ladder says
    """

    def actions(relief: Relief, why: str) -> Iterable[Action]:
        why = why if says is None else says.format(why)
        return (Action(name, uuid, f"{size >> 20} MiB {what}", why) for uuid, size in relief.of(name).items())

    return actions


def in_pieces(name: LeverName) -> Callable[[Relief, HostPlans], Collection[str]]:
    """All VMs that such a lever is asked for, as `takes`."""
    return lambda relief, plans: relief.of(name).keys()


def with_next_report(one: DomainReport, state: LeverState, after: Mapping[str, str | None], wish: str) -> Verdict:
    """What is wished is set."""
    return Verdict(Answer.PLANNED, Reason.DRY_RUN, f"set to {wish} {NEXT}")
