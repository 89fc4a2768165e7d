"""What a plan asks of whom: the same for reports, `memhint plan` and who carries it out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from memhint.objects.domain import DomainObservation
from memhint.objects.estimate import DedupEstimate
from memhint.objects.lever import Action
from memhint.objects.policy import Policy
from memhint.objects.relief import Relief
from memhint.planner.host_cycle import HostPlans
from memhint.planner.levers import PLANNED
from memhint.planner.relief.relieve import CALM, PRESSED
from memhint.planner.splits import words


def actions_of(
    domains: Sequence[DomainObservation],
    policies: Mapping[str, Policy],
    plans: HostPlans,
    relief: Relief,
    *,
    calm: bool,
) -> tuple[Action, ...]:
    """All of it: what policy asks for comes first.

    :param calm: no rung of the ladder is entered
    """
    by_policy = (action for lever in PLANNED for action in lever.by_policy(domains, policies, plans))
    return (*by_policy, *relief_actions(relief, calm=calm))


def relief_actions(relief: Relief, *, calm: bool = False) -> tuple[Action, ...]:
    """What the ladder asks for, and what idle VMs are asked for on a calm host."""
    why = CALM if calm else PRESSED
    return tuple(action for lever in PLANNED for action in lever.by_relief(relief, why))


def with_splits(
    actions: Iterable[Action],
    relief: Relief,
    domains: Iterable[DomainObservation],
    estimated: DedupEstimate | None,
) -> tuple[Action, ...]:
    """The actions of a plan; those that take memory in pieces say what that splits."""
    known = {one.uuid: one for one in domains}
    levers = {lever.name: lever for lever in PLANNED}
    found = []
    for action in actions:
        domain = known.get(action.subject)
        splits = levers[action.lever].splits(action, relief, domain, estimated) if domain is not None else None
        found.append(action if splits is None else replace(action, why=f"{action.why}; {words(splits)}"))
    return tuple(found)
