"""What a cycle hands to its levers, made by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from memhint.agent.observer import Observation
from memhint.agent.view import HostSnapshot
from memhint.objects.domain import DomainObservation
from memhint.objects.lever import LeverName
from memhint.objects.policy import Policy
from memhint.objects.relief import Relief
from memhint.planner.dedup import DedupPlan
from memhint.planner.plan import Planned, Sight
from memhint.planner.settings import PlannerSettings
from memhint.planner.state import start
from memhint.planner.tiering import TieringPlan
from tests.unit import builders


def view_of(domains: Sequence[DomainObservation], policies: Mapping[str, Policy], **changes: Any) -> HostSnapshot:
    """A view of these VMs, all of them known; ``changes`` are the observation's."""
    seen = Observation(builders.host_observation(), tuple(domains), (), Sight.CLEAR)
    return HostSnapshot(1000.0, replace(seen, **changes), policies, {})


def asking(**wishes: Any) -> Planned:
    """A plan that asks for this by the ladder."""
    of_host = {LeverName.DEDUP: DedupPlan(frozenset(), None, {}), LeverName.TIERING: TieringPlan()}
    return Planned(builders.plan(relief=Relief(**wishes)), of_host, start(PlannerSettings()))
