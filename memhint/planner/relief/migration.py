"""The rung `migration`: somebody is asked to move a VM away."""

from __future__ import annotations

from collections.abc import Iterable

from memhint.objects.policy import QosClass
from memhint.planner.relief.candidate import Candidate


def whom_to_migrate(candidates: Iterable[Candidate], before: str | None) -> str | None:
    """The VM whose leaving helps most: best-effort before burstable, then by footprint. Never a guaranteed one."""
    movable = [
        one
        for one in candidates
        if one.policy.qos is not QosClass.GUARANTEED
        and not (one.domain.facts.vfio or one.domain.facts.locked or one.domain.facts.confidential)
    ]
    if not movable:
        return None
    if before in {one.uuid for one in movable}:
        return before
    rank = {QosClass.BEST_EFFORT: 0, QosClass.BURSTABLE: 1}
    best = min(movable, key=lambda one: (rank[one.policy.qos], -(one.domain.footprint or 0), one.uuid))
    return best.uuid
