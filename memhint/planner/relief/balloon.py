"""The rung `balloon`: idle best-effort guests shrink, a step at a time."""

from __future__ import annotations

from collections.abc import Iterable

from memhint.objects.exclusion import Mechanism
from memhint.objects.policy import QosClass
from memhint.planner.relief.candidate import Candidate
from memhint.planner.settings import LadderSettings

MARGIN = 128 << 20  # bytes beyond what a guest uses that a balloon leaves it
REST = 32 << 20  # bytes: what a guest uses is never quite the same, and its balloon does not follow each change


def balloons(candidates: Iterable[Candidate], settings: LadderSettings) -> dict[str, int]:
    """Idle best-effort guests, a step at a time, to what they use and never below their minimum."""
    found = {}
    for one in candidates:
        facts, guest, actual = one.domain.facts, one.domain.guest, one.domain.balloon_actual
        if not (
            one.policy.balloon
            and one.policy.qos is QosClass.BEST_EFFORT
            and facts.balloon
            and one.may(Mechanism.BALLOON)
        ):
            continue
        if guest is None or guest.available is None or actual is None or not one.policy.minimum:
            continue  # without a minimum it is not known how far it may go
        if not one.idle and actual >= facts.memory:
            continue  # one that shrank already keeps its size until the rung is left
        step = int(facts.memory * settings.balloon_step_percent / 100)
        # Of what the balloon leaves: a kernel whose balloon deflates itself counts what it holds in its total.
        floor = max(one.policy.minimum, actual - guest.available + MARGIN)
        target = max(one.policy.minimum, _towards(floor, actual, step)) if one.idle else actual
        found[one.uuid] = min(facts.memory, target)
    return found


def _towards(floor: int, actual: int, step: int) -> int:
    """The next size on the way to the floor; the same where it is near enough."""
    if abs(actual - floor) < REST:
        return actual
    return floor if actual - step < floor + REST else actual - step
