"""What is remembered of merging from one cycle to the next."""

from __future__ import annotations

from dataclasses import dataclass, field

from memhint.planner.dedup_auto import AutoState
from memhint.planner.dedup_breaks import BreakState
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
