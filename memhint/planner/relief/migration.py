"""The rung `migration`: somebody is asked to move a VM away."""

from __future__ import annotations

from collections.abc import Iterable

from memhint.objects.domain import DomainObservation
from memhint.objects.policy import Policy, QosClass
from memhint.planner.relief.candidate import Candidate

_RANK = {QosClass.BEST_EFFORT: 0, QosClass.BURSTABLE: 1}  # a guaranteed one is never asked for


def in_order(domains: Iterable[tuple[DomainObservation, Policy]]) -> list[str]:
    """UUIDs of the VMs that may be moved, those whose leaving helps most first: best-effort before burstable, then by
    footprint.
    """
    movable = [
        (_RANK[policy.qos], -(one.footprint or 0), one.uuid)
        for one, policy in domains
        if policy.qos in _RANK and not (one.facts.vfio or one.facts.locked or one.facts.confidential)
    ]
    return [uuid for *_, uuid in sorted(movable)]


def whom_to_migrate(candidates: Iterable[Candidate], before: str | None) -> str | None:
    """The VM whose leaving helps most, or the one that was named before."""
    order = in_order((one.domain, one.policy) for one in candidates)
    if before in order:
        return before
    return order[0] if order else None
