"""The hold of a reclaim: looks at the guest's page cache, and asks again for what the guest filled since."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from memhint.guest.commands import RECLAIM_MEMORY
from memhint.guest.errors import GuestError, GuestTimeout
from memhint.guest.meminfo import read_meminfo
from memhint.levers.cache import CacheLever, CacheTarget, verdict_of
from memhint.objects.reclaim import Hold, Reclaim, ReclaimState, Stop, released
from memhint.objects.verdict import Answer, Reason, Verdict
from memhint.planner.hold import CacheLook, after_go, next_step

_HOLDABLE = (Stop.DONE, Stop.EXHAUSTED, Stop.DEADLINE)  # not what the guest's pressure or anybody's word ended
_SHORTEST = 1.0  # seconds that a reclaim may take, as in a request
_GIVE_WAY = Verdict(Answer.FAILED, Reason.INTERRUPTED, "another request to the VM waits")
_TRIES = 3  # of the first look


class CacheHold:
    """The lever's other half. Its looks take a call; where something is to be taken back, as long as they may."""

    def __init__(self, lever: CacheLever, longest: float) -> None:
        """:param longest: seconds that one go may ask its guest; what is left then, the next look finds again"""
        self._lever = lever
        self._longest = longest

    def begin(self, target: CacheTarget, done: Reclaim, at: float) -> Reclaim:
        """The reclaim with what its hold keeps from ``at`` (unix seconds) on; itself where there is nothing to hold."""
        request = done.request
        if not request.hold or request.dry_run or not done.reclaimed or done.stop not in _HOLDABLE:
            return done
        try:
            boot = target.capabilities().boot_id
            seen = _first_look(target)
        except GuestError as error:
            verdict = replace(done.verdict, detail=f"{done.verdict.detail}; not held: {error.detail}")
            return replace(done, verdict=verdict)
        held = Hold(at, at + request.hold, seen.cached, max(0, seen.cached - seen.cold), boot=boot)
        return replace(done, state=ReclaimState.HOLDING, held=held)

    def look(
        self,
        target: CacheTarget,
        holding: Reclaim,
        wall: Callable[[], float],
        tell: Callable[[Reclaim], Verdict | None],
        waited_for: Callable[[], bool],
    ) -> Reclaim:
        """Look once, and take back what was filled again; the request as it holds on, or as its hold ended.

        :param wall: unix seconds
        :param tell: told of the progress after each call; a verdict ends the hold there
        :param waited_for: whether somebody else wants this guest: the hold goes on, with its next look
        :raises GuestError: the guest could not be looked at, and nothing was done
        """
        held = holding.held
        if held is None:
            return holding
        boot = target.capabilities().boot_id
        if held.boot is not None and boot is not None and boot != held.boot:
            # What it holds now is not what was filled again: it was read by the boot.
            return released(holding, Stop.INTERRUPTED, wall(), Reason.INTERRUPTED, "the guest was booted again")
        step = next_step(holding, _look(target))
        if step.stop is not None:
            return released(holding, step.stop, wall(), step.reason, step.why)
        if not step.again:
            return holding
        seconds = max(_SHORTEST, min(holding.request.timeout, held.until - wall(), self._longest))
        piece = replace(
            holding,
            request=replace(holding.request, timeout=seconds),
            state=ReclaimState.RUNNING,
            asked=step.again,
            reclaimed=0,
            stop=None,
            calls=0,
        )
        gave_way = False

        def told(now: Reclaim) -> Verdict | None:
            nonlocal gave_way
            word = tell(_joined(holding, held, now))
            gave_way = word is None and waited_for()
            return _GIVE_WAY if gave_way else word

        done = self._lever.carry_out(target, piece, told)
        joined = _joined(holding, held, done)
        if gave_way and done.stop in (*_HOLDABLE, Stop.INTERRUPTED):
            return joined
        if done.stop not in _HOLDABLE:
            return released(joined, done.stop or Stop.LOST, wall(), done.verdict.reason, done.verdict.detail)
        if not done.calls:
            raise GuestTimeout(f"{RECLAIM_MEMORY}: no answer in all the time of a go")
        joined, end = after_go(joined, done.reclaimed)
        return joined if end.stop is None else released(joined, end.stop, wall(), end.reason, end.why)


def lost(holding: Reclaim, error: GuestError, at: float) -> Reclaim:
    """A hold that ends because its guest cannot be looked at."""
    verdict = verdict_of(error)
    return released(holding, Stop.LOST, at, verdict.reason, verdict.detail)


def _first_look(target: CacheTarget) -> CacheLook:
    """Like a later one, which may go unanswered a few times: a guest that just gave memory back has much to do."""
    for _ in range(_TRIES - 1):
        try:
            return _look(target)
        except GuestTimeout:
            continue
    return _look(target)


def _look(target: CacheTarget) -> CacheLook:
    with target.conversation() as agent:
        info = read_meminfo(agent)
    memory = min(target.domain.facts.memory, info.total)
    cached = min(memory, info.cached or 0)
    return CacheLook(cached, cached if info.cold is None else min(cached, info.cold), info.pressure)


def _joined(holding: Reclaim, held: Hold, piece: Reclaim) -> Reclaim:
    """The request with one more go, however far that is; itself as long as the guest was not asked."""
    if not piece.calls:
        return holding
    pressures = [one for one in (holding.pressure, piece.pressure) if one is not None]
    return replace(
        holding,
        compaction=piece.compaction,
        pressure=max(pressures, default=None),
        calls=holding.calls + piece.calls,
        after=holding.after if piece.after is None else piece.after,
        held=replace(held, again=held.again + piece.reclaimed, rounds=held.rounds + 1),
    )
