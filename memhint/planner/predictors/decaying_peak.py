"""The decaying peak: a VM may come back to where it was, the less likely the longer ago that was."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from memhint.planner.past import Past
from memhint.planner.predictors.predictor import within


def decayed(peak: float, use: int, elapsed: float, half_life: float) -> float:
    """max(use, use + (peak − use) × ½^(elapsed / half_life)): falls towards the present use, and jumps up with it."""
    fade = math.pow(0.5, max(0.0, elapsed) / half_life)
    return max(float(use), use + (peak - use) * fade)


@dataclass(frozen=True, slots=True)
class DecayingPeak:
    """Each VM by itself. Remembers two numbers of it."""

    half_life: float  # seconds

    @property
    def key(self) -> str:
        """See Predictor."""
        return "decaying_peak"

    @property
    def words(self) -> str:
        """See Predictor."""
        return "decaying peak of its footprint"

    def first(self, instance: str, use: int, now: float) -> Past:
        """See Predictor."""
        return Past(instance, now, use, now, use)

    def next(self, past: Past, use: int, now: float) -> Past:
        """See Predictor."""
        peak = decayed(past.peak, use, now - past.at, self.half_life)
        highest = max(past.highest, use)
        return Past(past.instance, past.first_seen, peak, now, highest, memory=past.memory, born=past.born)

    def forecast(self, uses: Sequence[int], assigned: Sequence[int], pasts: Sequence[Past]) -> list[int]:
        """See Predictor."""
        return [within(past.peak, use, most) for past, use, most in zip(pasts, uses, assigned, strict=True)]
