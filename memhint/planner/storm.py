"""The storm reserve: a share of what the VMs were given and do not use comes back at once, unannounced.

If each VM comes back with probability φ, what comes is φ × Σ(A − D) on average, with a variance of
φ (1 − φ) × Σ(A − D)²: few large VMs need more than many small ones. Two standard deviations are kept beside the
average, and for φ above a fifth as many as make φ of one VM the whole VM. So no VM that grows makes the sum of
what is wanted and what is kept smaller.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from memhint.objects.plan import Capacity
from memhint.planner.settings import PlannerSettings


def storm_reserve(distances: Sequence[int], percent: int) -> int:
    """Bytes for VMs of which each may claim its ``distance`` to its full size, where ``percent`` of them do at once."""
    return of_sums(sum(distances), sum(one * one for one in distances), percent)


def of_sums(total: int, squares: int, percent: int) -> int:
    """`storm_reserve` of Σ distance and Σ distance²."""
    deviations = min(4 * percent * (100 - percent), (100 - percent) ** 2)
    return (percent * total + math.isqrt(deviations * squares)) // 100


def learnt(settings: PlannerSettings, worst: int | None) -> PlannerSettings:
    """The settings with a reserve that suffices for the worst storm, too, in percent of VMs; None: of none is known."""
    if not settings.storm_learn or worst is None or worst <= settings.storm_percent:
        return settings
    return replace(settings, storm_percent=worst)


def may_return(capacity: Capacity) -> int | None:
    """Percent of what VMs were given and do not count with that may come back at once: the host's grade.

    None where there is nothing to come back: all VMs count in full.
    """
    claims = capacity.assigned - capacity.want
    if claims <= 0:
        return None
    room = capacity.pool - capacity.reserve - capacity.other - capacity.want
    return max(0, min(100, 100 * room // claims))
