"""Free page reporting, to the planner."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from memhint.objects.domain import DomainObservation
from memhint.objects.estimate import DedupEstimate
from memhint.objects.gap import Gap
from memhint.objects.guest import GuestSource
from memhint.objects.ladder import Rung
from memhint.objects.lever import Action, LeverName, LeverState, Observed
from memhint.objects.pieces import HUGE_ORDER
from memhint.objects.policy import Consent, Mode, Policy
from memhint.objects.relief import Relief
from memhint.objects.report import DomainReport, Reclaimable
from memhint.objects.tuning import Tuning
from memhint.objects.verdict import Answer, Reason, Verdict
from memhint.planner.host_cycle import HostPlans
from memhint.planner.levers.lever import Need, PlannedLever, with_next_report
from memhint.planner.relief.tuning import tuned, tunings, words_of
from memhint.planner.splits import Splits, splits_by_free


def _wishes(domains: Sequence[DomainObservation], policies: Mapping[str, Policy], plans: HostPlans) -> Iterable[Action]:
    for domain in domains:
        policy = policies[domain.uuid]
        if policy.reporting is not Mode.AUTO:
            origin = policy.settings["reporting"].origin
            yield Action(LeverName.REPORTING, domain.uuid, policy.reporting, f"asked for by {origin}")


def _tunings(relief: Relief, why: str) -> Iterable[Action]:
    for uuid, tuning in relief.tuning.items():
        yield Action(LeverName.REPORTING, uuid, words_of(tuning), f"policy, or {why}")


def _is_finer(tuning: Tuning) -> bool:
    return tuning.order is not None and tuning.order < HUGE_ORDER


def _takes(relief: Relief, plans: HostPlans) -> Collection[str]:
    return [uuid for uuid, tuning in relief.tuning.items() if _is_finer(tuning)]


def _splits(
    action: Action, relief: Relief, domain: DomainObservation, estimated: DedupEstimate | None
) -> Splits | Gap | None:
    tuning = relief.tuning.get(action.subject)
    if tuning is None or tuning.order is None or not _is_finer(tuning):
        return None
    return splits_by_free(domain, tuning.order)


def by_reporting(
    domain: DomainObservation, observed: Observed = Observed.UNKNOWN, estimated: DedupEstimate | None = None
) -> Reclaimable:
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


def _foresee(one: DomainReport, state: LeverState, after: Mapping[str, str | None], wish: str) -> Verdict:
    facts = one.observation.facts
    if wish == Mode.ON and facts.balloon and not facts.reporting_offered and facts.persistent:
        return Verdict(Answer.PLANNED, Reason.NEXT_BOOT, "set freePageReporting='on' for the VM's next start")
    if wish == Mode.AUTO or wish == state.observed:
        return Verdict(Answer.UNCHANGED)
    if after.get("guest_actions") != Consent.ALLOW:
        return Verdict(Answer.REFUSED, Reason.CONSENT, "the guest may not be changed; set guest_actions=allow too")
    return with_next_report(one, state, after, wish)


def _ask(need: Need, relief: Relief) -> Relief:
    return replace(relief, tuning=tunings(need.rungs, need.candidates, need.settings, need.singles))


def _asked_sooner(relief: Relief) -> bool:
    return any(one.delay_ms is not None for one in relief.tuning.values())


def _asked_finer(relief: Relief) -> bool:
    return any(one.order is not None for one in relief.tuning.values())


REPORTING = PlannedLever(
    name=LeverName.REPORTING,
    wished=tuned,
    ask=_ask,
    asked={Rung.REPORTING: _asked_sooner, Rung.ORDER: _asked_finer},
    by_policy=_wishes,
    by_relief=_tunings,
    takes=_takes,
    leaves_holes=True,
    only_free=True,
    splits=_splits,
    reclaimable=by_reporting,
    foresee=_foresee,
)
