"""Page cache that guests give up, to the planner."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from memhint.objects.domain import DomainObservation
from memhint.objects.estimate import DedupEstimate
from memhint.objects.guest import GuestSource
from memhint.objects.ladder import Rung
from memhint.objects.lever import LeverName, LeverState, Observed
from memhint.objects.policy import Consent
from memhint.objects.relief import Relief
from memhint.objects.report import DomainReport, Reclaimable
from memhint.objects.verdict import Answer, Reason, Verdict
from memhint.planner.levers.lever import Need, PlannedLever, in_mib
from memhint.planner.relief.cache import caches


def by_cache(domain: DomainObservation, observed: Observed, estimated: DedupEstimate | None = None) -> Reclaimable:
    """What a reclaim could bring back: at most the guest's page cache, and at most what is resident.

    Much of it may be in use: how much is cold is asked when it is reclaimed. Unknown where the lever cannot be pulled.
    """
    guest, process = domain.guest, domain.process
    if observed not in (Observed.ON, Observed.OFF) or guest is None or guest.cached is None or process is None:
        return Reclaimable(LeverName.CACHE, None, GuestSource.HOST, None)
    return Reclaimable(LeverName.CACHE, min(guest.cached, process.footprint), guest.source, guest.at)


def _foresee(one: DomainReport, state: LeverState, after: Mapping[str, str | None], wish: str) -> Verdict:
    if wish != Consent.ALLOW:
        return Verdict(Answer.REFUSED, Reason.CONSENT, "requests will be refused")
    return Verdict(Answer.UNCHANGED, Reason.NONE, "requests will be carried out")


def _ask(need: Need, relief: Relief) -> Relief:
    return replace(relief, cache=caches(need.rungs, need.candidates, need.shortage, need.settings))


CACHE = PlannedLever(
    name=LeverName.CACHE,
    ask=_ask,
    asked={Rung.CACHE: lambda relief: bool(relief.cache)},
    grows=True,
    by_relief=in_mib(LeverName.CACHE, "back"),
    reclaimable=by_cache,
    foresee=_foresee,
)
