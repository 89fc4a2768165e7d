"""What levers would do under another policy, as far as a VM's newest report tells. The lever itself may know better."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from memhint.objects.lever import LeverName, LeverState, Observed
from memhint.objects.levers import LEVERS, listens
from memhint.objects.report import DomainReport
from memhint.objects.verdict import Answer, Reason, Verdict
from memhint.planner.levers import PLANNED
from memhint.planner.levers.lever import NEXT

_OF = {lever.name: lever.foresee for lever in PLANNED if lever.foresee is not None}


def foresee(
    one: DomainReport, before: Mapping[str, str | None], after: Mapping[str, str | None]
) -> tuple[LeverState, ...]:
    """The levers of a VM that a change of its policy concerns, as they would be.

    ``before`` and ``after`` are the values of policy keys; None is a value that only the host knows.
    """
    changed = {key for key in after if before.get(key) != after[key]}
    found = []
    for state in (*one.levers, *_appearing(one, after, {state.lever for state in one.levers})):
        keys = listens(state.lever) if state.lever in _OF else ()
        if changed.intersection(keys):
            wish = after.get(keys[0])
            # Where no key wishes the lever, the first one only allows it.
            desired = state.desired if wish is None or LEVERS[state.lever].wish is None else wish
            found.append(replace(state, desired=desired, verdict=_verdict(one, state, after)))
    return tuple(found)


def _appearing(
    one: DomainReport, after: Mapping[str, str | None], shown: Collection[LeverName]
) -> Iterable[LeverState]:
    """Levers that the newest report does not show of a VM, and that the next one will."""
    for lever in PLANNED:
        wish = after.get(listens(lever.name)[0]) if lever.foresee is not None and lever.name not in shown else None
        seen = lever.appears(one.observation, wish) if wish is not None else None
        if wish is not None and seen is not None:
            yield LeverState(lever.name, one.observation.uuid, wish, seen, Verdict(Answer.UNCHANGED))


def _verdict(one: DomainReport, state: LeverState, after: Mapping[str, str | None]) -> Verdict:
    wish = after.get(listens(state.lever)[0])
    told = None if wish is None else _OF[state.lever](one, state, after, wish)
    if state.observed is Observed.UNSUPPORTED and (told is None or told.reason is not Reason.NEXT_BOOT):
        return state.verdict if state.verdict.answer is Answer.UNSUPPORTED else Verdict(Answer.UNSUPPORTED)
    return told or Verdict(Answer.PENDING, Reason.NONE, "what holds without the operator is known " + NEXT)
