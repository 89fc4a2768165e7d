"""What levers would do under another policy, as far as a VM's newest report tells. The lever itself may know better."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from memhint.objects.lever import LeverName, LeverState, Observed
from memhint.objects.levers import listens
from memhint.objects.policy import Consent, Mode
from memhint.objects.policy_values import part_of
from memhint.objects.report import DomainReport
from memhint.objects.verdict import Answer, Reason, Verdict

_NEXT = "with the host's next report"


def foresee(
    one: DomainReport, before: Mapping[str, str | None], after: Mapping[str, str | None]
) -> tuple[LeverState, ...]:
    """The levers of a VM that a change of its policy concerns, as they would be.

    ``before`` and ``after`` are the values of policy keys; None is a value that only the host knows.
    """
    changed = {key for key in after if before.get(key) != after[key]}
    found = []
    for state in one.levers:
        keys = listens(state.lever) if state.lever in _OF else ()
        if changed.intersection(keys):
            wish = after.get(keys[0])
            desired = state.desired if wish is None or state.lever is LeverName.CACHE else wish
            found.append(replace(state, desired=desired, verdict=_verdict(one, state, after)))
    return tuple(found)


def _verdict(one: DomainReport, state: LeverState, after: Mapping[str, str | None]) -> Verdict:
    if state.observed is Observed.UNSUPPORTED:
        return state.verdict if state.verdict.answer is Answer.UNSUPPORTED else Verdict(Answer.UNSUPPORTED)
    wish = after.get(listens(state.lever)[0])
    if wish is None:
        return Verdict(Answer.PENDING, Reason.NONE, "what holds without the operator is known " + _NEXT)
    return _OF[state.lever](one, state, after, wish)


def _reporting(one: DomainReport, state: LeverState, after: Mapping[str, str | None], wish: str) -> Verdict:
    if wish == Mode.AUTO or wish == state.observed:
        return Verdict(Answer.UNCHANGED)
    if after.get("guest_actions") != Consent.ALLOW:
        return Verdict(Answer.REFUSED, Reason.CONSENT, "the guest may not be changed; set guest_actions=allow too")
    return _planned(one, state, after, wish)


def _dedup(one: DomainReport, state: LeverState, after: Mapping[str, str | None], wish: str) -> Verdict:
    if wish == state.observed:
        return Verdict(Answer.UNCHANGED)
    if wish != Mode.OFF and not (one.observation.facts.project or after.get("project")):
        return Verdict(Answer.REFUSED, Reason.NO_PROJECT, "its project is not known; set project too")
    return _planned(one, state, after, wish)


def _cache(one: DomainReport, state: LeverState, after: Mapping[str, str | None], wish: str) -> Verdict:
    if wish != Consent.ALLOW:
        return Verdict(Answer.REFUSED, Reason.CONSENT, "requests will be refused")
    return Verdict(Answer.UNCHANGED, Reason.NONE, "requests will be carried out")


def _consented(one: DomainReport, state: LeverState, after: Mapping[str, str | None], wish: str) -> Verdict:
    if wish != Consent.ALLOW:
        return Verdict(Answer.UNCHANGED, Reason.NONE, "never pulled; what was taken is given back")
    return Verdict(Answer.UNCHANGED, Reason.NONE, "pulled when the host is under pressure")


def _recycler(one: DomainReport, state: LeverState, after: Mapping[str, str | None], wish: str) -> Verdict:
    if wish == Mode.AUTO:
        return Verdict(Answer.UNCHANGED, Reason.NONE, "pulled while the VM is idle, on its rung")
    return Verdict(Answer.UNCHANGED) if wish == state.observed else _planned(one, state, after, wish)


def _thp(one: DomainReport, state: LeverState, after: Mapping[str, str | None], wish: str) -> Verdict:
    if wish == Mode.OFF:
        return Verdict(Answer.UNCHANGED, Reason.NONE, "never pulled; huge pages that there are stay")
    when = "wherever huge pages are missing" if wish == Mode.ON else "after memhint took memory from it in pieces"
    return Verdict(Answer.UNCHANGED, Reason.NONE, f"pulled while the VM works and the host is calm, {when}")


def _tiering(one: DomainReport, state: LeverState, after: Mapping[str, str | None], wish: str) -> Verdict:
    if wish != Consent.ALLOW:
        return Verdict(Answer.UNCHANGED, Reason.NONE, "nothing is moved any more; pages stay where they are")
    size = one.observation.facts.memory
    least, most = part_of(after.get("fast_min") or "", size), part_of(after.get("fast_max") or "", size)
    if least is not None and most is not None and least > most:
        return Verdict(Answer.REFUSED, Reason.LIMITS, "fast_min is more than fast_max; make it smaller")
    return Verdict(Answer.UNCHANGED, Reason.NONE, "moved by how it is used, where the host has nodes to move it to")


def _planned(one: DomainReport, state: LeverState, after: Mapping[str, str | None], wish: str) -> Verdict:
    return Verdict(Answer.PLANNED, Reason.DRY_RUN, f"set to {wish} {_NEXT}")


_OF = {
    LeverName.REPORTING: _reporting,
    LeverName.DEDUP: _dedup,
    LeverName.CACHE: _cache,
    LeverName.BALLOON: _consented,
    LeverName.SWAP_OUT: _consented,
    LeverName.RECYCLER: _recycler,
    LeverName.THP: _thp,
    LeverName.TIERING: _tiering,
    LeverName.QOS: _planned,
}
