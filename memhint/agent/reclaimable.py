"""What came back of a VM's memory, and what each lever could still bring back: pure figures for its report."""

from __future__ import annotations

from collections.abc import Iterable

from memhint.objects.domain import DomainObservation
from memhint.objects.estimate import DedupEstimate
from memhint.objects.guest import GuestSource
from memhint.objects.lever import LeverName, LeverState, Observed
from memhint.objects.report import Reclaimable
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
    cache = next((state.observed for state in levers if state.lever is LeverName.CACHE), Observed.UNKNOWN)
    return (by_reporting(domain), by_dedup(domain, estimated), by_cache(domain, cache))


def by_reporting(domain: DomainObservation) -> Reclaimable:
    """What reporting could still bring back.

    Exact where the guest knows what it has not reported. Elsewhere at most what is free in the guest and resident
    here, if all that the guest uses is resident. Never more than is resident, and nothing by the word of a guest that
    was found to claim more than the host discarded.
    """
    guest, check = domain.guest, domain.reporting_check
    if guest is None or (check is not None and check.overclaims):
        return Reclaimable(LeverName.REPORTING, None, GuestSource.HOST, None)
    if guest.unreported is not None:
        most = guest.unreported if domain.process is None else min(guest.unreported, domain.process.rss)
        return Reclaimable(LeverName.REPORTING, most, guest.source, guest.at)
    if guest.free is None or guest.total is None or domain.process is None:
        return Reclaimable(LeverName.REPORTING, None, guest.source, guest.at)
    resident_and_free = max(0, domain.process.rss - max(0, guest.total - guest.free))
    return Reclaimable(LeverName.REPORTING, min(guest.free, resident_and_free), guest.source, guest.at)


def by_cache(domain: DomainObservation, observed: Observed) -> Reclaimable:
    """What a reclaim could bring back: at most the guest's page cache, and at most what is resident.

    Much of it may be in use: how much is cold is asked when it is reclaimed. Unknown where the lever cannot be pulled.
    """
    guest, process = domain.guest, domain.process
    if observed not in (Observed.ON, Observed.OFF) or guest is None or guest.cached is None or process is None:
        return Reclaimable(LeverName.CACHE, None, GuestSource.HOST, None)
    return Reclaimable(LeverName.CACHE, min(guest.cached, process.footprint), guest.source, guest.at)


def by_dedup(domain: DomainObservation, estimated: DedupEstimate | None) -> Reclaimable:
    """What merging could bring back by the estimate; of a VM that merges already, how much is left is not known."""
    parts = estimated.vms if estimated is not None else ()
    part = next((one for one in parts if one.uuid == domain.uuid), None)
    if part is None or domain.process is None or domain.process.ksm_merging or domain.process.ksm_zero:
        return Reclaimable(LeverName.DEDUP, None, GuestSource.HOST, None)
    return Reclaimable(LeverName.DEDUP, part.saving, GuestSource.HOST, part.at)
