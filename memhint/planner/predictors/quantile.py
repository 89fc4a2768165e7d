"""A quantile of each VM's own past: what it stayed below for most of the window."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from memhint.planner.past import Past
from memhint.planner.predictors.predictor import within
from memhint.planner.predictors.windowed import Windowed


def nearest_rank(values: Sequence[int], q: float) -> int:
    """The nearest-rank quantile: the value at place ⌈q × n⌉ of the n sorted ones."""
    return sorted(values)[max(0, math.ceil(q * len(values)) - 1)]


@dataclass(frozen=True, slots=True)
class Quantile(Windowed):
    """Each VM by itself. A percentile of each task's past is the "resource central"-like predictor of
    Bashir et al., "Take it to the limit" (EuroSys 2021).
    """

    q: float  # 0 to 1

    @property
    def key(self) -> str:
        """See Predictor."""
        return f"quantile/{self.q:g}/{self.window:g}"

    @property
    def words(self) -> str:
        """See Predictor."""
        return "quantile of its footprint"

    def peak(self, slots: tuple[int, ...]) -> int:
        """See Windowed."""
        return nearest_rank(slots, self.q)

    def forecast(self, uses: Sequence[int], assigned: Sequence[int], pasts: Sequence[Past]) -> list[int]:
        """See Predictor."""
        return [within(past.peak, use, most) for past, use, most in zip(pasts, uses, assigned, strict=True)]
