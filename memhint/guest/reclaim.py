"""Asking a guest for its page cache through an extended agent: one short call after the other, each by itself.

The agent serves one command at a time, and others may be waiting for it: every call gets a conversation of its own,
so that what is long is never the channel's but only memhint's.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace

from memhint.guest import fields
from memhint.guest.commands import RECLAIM_MEMORY
from memhint.guest.errors import GuestAnswerMalformed, GuestSilent
from memhint.guest.protocol import GuestAgent
from memhint.objects.reclaim import Compaction, Stop

Conversation = Callable[[], AbstractContextManager[GuestAgent]]

CALL_MS = 1000  # that one call may spend; the agent allows 1500
SMALLEST_MS = 50
_PAUSE_S = 0.05  # between two calls: others that wait for the guest's agent come first
_SILENCE_PAUSE_S = 1.0
_SILENT_MAX = 3  # calls in a row without an answer; a busy guest may miss one
_IDLE_MAX = 8  # calls in a row that get nowhere
_SIZE_MAX = 1 << 60
_TIME = "time"  # of a call, not of the whole


@dataclass(frozen=True, slots=True)
class ReclaimAnswer:
    """One call's answer. Bytes; ``pressure`` in percent, None where the guest's kernel does not measure it."""

    reclaimed: int
    remaining: int
    stop: Stop | None  # None: only the call's time was up
    compaction: Compaction
    more: bool
    swapped_out: int
    pressure: float | None
    reportable: int  # free in blocks that can be reported, afterwards


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a reclaim has come. ``stop`` is None while it goes on. Bytes."""

    asked: int
    remaining: int
    reclaimed: int = 0
    compaction: Compaction = Compaction.NONE
    stop: Stop | None = None
    pressure: float | None = None
    reportable: int | None = None
    calls: int = 0


def reclaim_once(agent: GuestAgent, size: int, psi_limit: float, time_limit_ms: int) -> ReclaimAnswer:
    """One call: ``size`` bytes (0: compact only), for at most so many milliseconds.

    :raises GuestCommandFailed: the guest's kernel cannot, or does not measure the pressure that should end it
    :raises GuestAnswerMalformed: the answer makes no sense
    :raises GuestError: as the agent's calls do
    """
    answer = agent.call(RECLAIM_MEMORY, bytes=size, psi_limit=psi_limit, time_limit_ms=time_limit_ms)

    def bytes_of(name: str) -> int:
        return fields.integer(answer, name, minimum=0, maximum=_SIZE_MAX)

    return ReclaimAnswer(
        reclaimed=bytes_of("reclaimed"),
        remaining=fields.integer(answer, "remaining", minimum=0, maximum=size),
        stop=_stop(fields.text(answer, "stop", max_len=32)),
        compaction=_compaction(fields.text(answer, "compaction", max_len=32)),
        more=fields.boolean(answer, "more"),
        swapped_out=bytes_of("swapped-out"),
        pressure=fields.number(answer, "pressure", minimum=0, maximum=100) if fields.has(answer, "pressure") else None,
        reportable=bytes_of("reportable-after"),
    )


def reclaim(
    conversation: Conversation,
    asked: int,
    psi_limit: float,
    seconds: float,
    *,
    tell: Callable[[Progress], bool],
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Progress:
    """Reclaim ``asked`` bytes in as many calls as it takes, for at most ``seconds``.

    :param conversation: gives the guest's agent for one call
    :param tell: told of the progress before the first call and after each; False ends it
    :raises GuestError: the guest refuses, gets nowhere, or has not answered several times in a row
    """
    until = clock() + seconds
    progress = Progress(asked, asked)
    silent = idle = 0
    limit: Stop | None = None  # what ended reclaiming, while compaction goes on
    while True:
        if not tell(progress):
            return replace(progress, stop=Stop.INTERRUPTED)
        left_ms = math.floor((until - clock()) * 1000)
        if left_ms < SMALLEST_MS:
            # Compaction that is still under way goes on by itself: what was asked for is there.
            return replace(progress, stop=limit or (Stop.DEADLINE if progress.remaining else Stop.DONE))
        try:
            with conversation() as agent:
                answer = reclaim_once(
                    agent, 0 if limit is not None else progress.remaining, psi_limit, min(CALL_MS, left_ms)
                )
        except GuestSilent:
            silent += 1
            if silent >= _SILENT_MAX:
                raise
            sleep(_SILENCE_PAUSE_S)
            continue
        silent = 0
        before = progress
        progress = _joined(before, answer, limit)
        if answer.stop in (Stop.EXHAUSTED, Stop.SWAP):
            limit = limit or answer.stop
        if not answer.more:
            end = answer.stop if answer.stop is not None and answer.stop is not Stop.DONE else limit
            return replace(progress, stop=end or Stop.DONE)
        moved = progress.remaining < before.remaining or progress.compaction is Compaction.RUNNING
        idle = 0 if moved else idle + 1
        if idle >= _IDLE_MAX:
            raise GuestAnswerMalformed(f"nothing moved in {idle} calls", RECLAIM_MEMORY)
        sleep(_PAUSE_S)


def _joined(before: Progress, answer: ReclaimAnswer, limit: Stop | None) -> Progress:
    pressures = [one for one in (before.pressure, answer.pressure) if one is not None]
    return Progress(
        asked=before.asked,
        remaining=before.remaining if limit is not None else answer.remaining,
        reclaimed=before.reclaimed + answer.reclaimed,
        compaction=answer.compaction,
        pressure=max(pressures, default=None),
        reportable=answer.reportable,
        calls=before.calls + 1,
    )


def _stop(word: str) -> Stop | None:
    if word == _TIME:
        return None
    if word in (Stop.DONE, Stop.EXHAUSTED, Stop.PRESSURE, Stop.SWAP):
        return Stop(word)
    raise GuestAnswerMalformed("not a word for why it stopped", "stop")


def _compaction(word: str) -> Compaction:
    try:
        return Compaction(word)
    except ValueError:
        raise GuestAnswerMalformed("not a word for what became of compaction", "compaction") from None
