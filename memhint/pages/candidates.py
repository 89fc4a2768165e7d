"""Which VMs' pages are worth reading."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from memhint.objects.domain import DomainObservation, ProcessMemory
from memhint.objects.policy import Mode, Policy
from memhint.planner.dedup import mergeable, pool_of, project_of
from memhint.planner.dedup_settings import MergeSettings
from memhint.planner.settings import PlannerSettings


@dataclass(frozen=True, slots=True)
class Candidate:
    """A VM that KSM could merge."""

    process: ProcessMemory
    pool: str | None  # whose pages it could share: those of one project; None with everybody's
    asks: bool  # for merging, by on or auto
    alone: bool = False  # its owner is unknown: it could share with itself only


def candidates(
    domains: Sequence[DomainObservation], policies: Mapping[str, Policy], settings: PlannerSettings
) -> dict[str, Candidate]:
    """The VMs whose pages are worth a look, by UUID: those that KSM could merge, whether they ask for it or not."""
    allow_cross_tenant = settings.of(MergeSettings).cross_tenant
    found = {}
    for one in domains:
        policy = policies[one.uuid]
        if mergeable(one) and one.process is not None:
            pool = pool_of(one, policy, allow_cross_tenant)
            alone = not allow_cross_tenant and project_of(one, policy) is None
            found[one.uuid] = Candidate(one.process, pool, policy.dedup is not Mode.OFF, alone)
    return found
