"""What came back of a VM's memory, and what each lever could still bring back: pure figures for its report."""

from __future__ import annotations

from collections.abc import Iterable

from memhint.objects.domain import DomainObservation
from memhint.objects.estimate import DedupEstimate
from memhint.objects.lever import LeverState, Observed
from memhint.objects.report import Reclaimable
from memhint.planner.levers import PLANNED
from memhint.planner.past import Past


def returned(domain: DomainObservation, past: Past | None) -> int | None:
    """Bytes the host saw come back: from the process's largest footprint to the present one."""
    if domain.footprint is None or past is None:
        return None
    return max(0, past.highest - domain.footprint)


def reclaimable_of(
    domain: DomainObservation, levers: Iterable[LeverState], estimated: DedupEstimate | None
) -> tuple[Reclaimable, ...]:
    """By each lever of which that can be told."""
    observed = {state.lever: state.observed for state in levers}
    return tuple(
        lever.reclaimable(domain, observed.get(lever.name, Observed.UNKNOWN), estimated)
        for lever in PLANNED
        if lever.reclaimable is not None
    )
