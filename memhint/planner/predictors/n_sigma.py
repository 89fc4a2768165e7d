"""N-sigma: the host's sum is likely to stay within its mean and N standard deviations.

Bashir et al., "Take it to the limit: peak prediction-driven resource overcommitment in datacenters" (EuroSys 2021),
take the sum of the tasks that are there now for normally distributed: VMs that do not peak at the same time then need
less together than each one's own peak, and those that do move the deviation up.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from memhint.planner.past import Past
from memhint.planner.predictors.windowed import Windowed


def sums(series: Sequence[tuple[int, ...]]) -> list[int]:
    """The host's sum in each slot, oldest first, over VMs whose series end at the same slot.

    A VM that was not there yet counts with its largest slot, so that what is not known is no calm.
    """
    length = max((len(one) for one in series), default=0)
    padded = [one if len(one) == length else (*([max(one)] * (length - len(one))), *one) for one in series]
    return [sum(column) for column in zip(*padded, strict=True)]


def n_sigma(totals: Sequence[int], sigmas: float, present: int) -> float:
    """max(present, mean + sigmas × standard deviation), of the population of slots."""
    if not totals:
        return float(present)
    mean = sum(totals) / len(totals)
    deviation = math.sqrt(sum((total - mean) ** 2 for total in totals) / len(totals))
    return max(float(present), mean + sigmas * deviation)


def share(total: float, uses: Sequence[int], assigned: Sequence[int]) -> list[int]:
    """A host's sum as each VM's part: its present use, and of the rest in proportion to its room A − U.

    The parts lie within [U, A], and their sum is not below ``total`` where ΣA allows it.
    """
    rooms = [most - use for use, most in zip(uses, assigned, strict=True)]
    room = sum(rooms)
    extra = min(math.ceil(max(0.0, total - sum(uses))), room)
    if not extra:
        return list(uses)
    return [use + -(-extra * one // room) for use, one in zip(uses, rooms, strict=True)]


@dataclass(frozen=True, slots=True)
class NSigma(Windowed):
    """The host's VMs together."""

    sigmas: float

    @property
    def words(self) -> str:
        """See Predictor."""
        return "its share of the host's N-sigma"

    def forecast(self, uses: Sequence[int], assigned: Sequence[int], pasts: Sequence[Past]) -> list[int]:
        """See Predictor."""
        total = n_sigma(sums([past.slots for past in pasts]), self.sigmas, sum(uses))
        return share(total, uses, assigned)
