"""Joins QEMU's counters to what was seen of each VM, and compares them with what the guest claims."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from memhint.agent.balloon_reads import BalloonReads
from memhint.objects.discarded import BalloonReporting
from memhint.objects.domain import DomainObservation, DomainState
from memhint.objects.guest import GuestSource
from memhint.planner.discarded import Claim, Pair, ReportingEvidence, believable, follow, prune


class Discarded:
    """Carries from one cycle to the next where each guest's and each host's count stood at first."""

    def __init__(self, reads: BalloonReads, slack: float) -> None:
        """:param slack: seconds that a conversation with a guest may take, and its last call beyond that."""
        self._reads = reads
        self._slack = slack
        self._pairs: dict[str, Pair] = {}

    def inherit(self, before: Discarded) -> None:
        """Go on from what an earlier one of this process found: a guest that claimed too much is not believed again."""
        self._pairs = dict(before._pairs)

    def join(self, domains: Sequence[DomainObservation]) -> list[DomainObservation]:
        """The same VMs with counters and comparison, and a guest's word clamped where it claims too much."""
        instances = {one.uuid: one.process.instance for one in domains if one.process is not None and _counts(one)}
        self._reads.want(instances)
        # What a guest was found to be does not end while its VM is paused, which a guest can bring about by itself.
        self._pairs = prune(self._pairs, {one.uuid: self._instance(one) for one in domains})
        return [self._joined(one) if one.uuid in instances else one for one in domains]

    def _instance(self, domain: DomainObservation) -> str:
        if domain.process is not None:
            return domain.process.instance
        pair = self._pairs.get(domain.uuid)
        if pair is None or domain.state is DomainState.SHUTOFF:
            return ""
        return pair.check.instance  # one missed reading is no new life

    def _joined(self, domain: DomainObservation) -> DomainObservation:
        reading, gap = self._reads.newest(domain.uuid)
        gaps = domain.gaps if gap is None else (*domain.gaps, gap)
        if reading is not None:
            self._pairs[domain.uuid] = follow(self._pairs.get(domain.uuid), _sides(domain, reading), self._slack)
        pair = self._pairs.get(domain.uuid)
        if pair is None:
            return replace(domain, gaps=gaps)
        guest = None if domain.guest is None else believable(domain.guest, pair)
        return replace(domain, guest=guest, balloon_reporting=reading, reporting_check=pair.check, gaps=gaps)


def _counts(domain: DomainObservation) -> bool:
    return domain.state is DomainState.RUNNING and domain.facts.balloon and domain.facts.reporting_offered


def _sides(domain: DomainObservation, reading: BalloonReporting) -> ReportingEvidence:
    assert domain.process is not None  # only VMs with a process come here
    guest, claim = domain.guest, None
    if guest is not None and guest.source is GuestSource.KERNEL and guest.lifetime_reported is not None:
        claim = Claim(guest.at, guest.lifetime_reported)
    boot_id = domain.guest_kernel.boot_id if domain.guest_kernel is not None else None
    return ReportingEvidence(domain.process.instance, boot_id, reading, claim, domain.process.rss)
