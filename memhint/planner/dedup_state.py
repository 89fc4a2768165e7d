"""What is remembered of merging from one cycle to the next."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from memhint.objects.domain import DomainObservation
from memhint.objects.merging import Merging
from memhint.planner.dedup_auto import AutoState
from memhint.planner.dedup_breaks import BreakState, merging_of
from memhint.planner.dedup_pace import PaceState
from memhint.planner.dedup_yield import TurnState


@dataclass(frozen=True, slots=True, kw_only=True)
class DedupState:
    """Fields of `PlannerState`: what hosts have stored has them there."""

    dedup_project: str | None = None
    dedup_auto: AutoState = field(default_factory=AutoState)
    dedup_pace: PaceState = field(default_factory=PaceState)
    dedup_turn: TurnState = field(default_factory=TurnState)
    dedup_breaks: BreakState = field(default_factory=BreakState)
    dedup_pauses: Mapping[str, float] = field(default_factory=dict)  # by QEMU process that merged: since when

    def merging_of(self, domain: DomainObservation, now: float) -> Merging | None:
        """How the merged memory of a VM fares; None where it has none and does not rest."""
        return merging_of(self.dedup_breaks, domain, now)
