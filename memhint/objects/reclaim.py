"""A request that one guest give back page cache, and what became of it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from memhint.objects.ranges import Moment
from memhint.objects.units import KIB, mib
from memhint.objects.verdict import Answer, Reason, Verdict
from memhint.objects.words import Word

PSI_LIMIT = 10.0  # percent of the time that the guest may lose waiting for memory
TIMEOUT = 60.0  # seconds that a reclaim may take
TIME_TO_LIVE = 60.0  # seconds within which it must have begun
HOLD_MAX = 3600.0  # seconds for which a guest may be kept from filling its page cache again
SMALLEST = 64 * KIB  # bytes: no less than one page, whatever the guest's page size
_TIMEOUT_MAX = 3600.0
_TIME_TO_LIVE_MAX = 86400.0
_WHY_MAX = 200
_WHO_MAX = 64


class ReclaimError(ValueError):
    """A request that no guest could be asked; the text says what is wrong."""


class ReclaimState(Word):
    """How far a request has come."""

    QUEUED = "queued"
    RUNNING = "running"
    HOLDING = "holding"  # the reclaim itself is done; what the guest fills again is reclaimed again
    DONE = "done"  # also where it stopped early by its own limits
    FAILED = "failed"
    REFUSED = "refused"  # a rule forbids it, or this guest cannot
    EXPIRED = "expired"  # not begun within its time to live

    @property
    def ended(self) -> bool:
        """True once nothing more will happen."""
        return self in (ReclaimState.DONE, ReclaimState.FAILED, ReclaimState.REFUSED, ReclaimState.EXPIRED)


class Stop(Word):
    """Why a reclaim that had begun, or its hold, came to its end."""

    DONE = "done"  # all that was asked for; of a hold: its time is over
    EXHAUSTED = "exhausted"  # the guest has no more page cache to give up; of a hold: it gives none, go after go
    PRESSURE = "pressure"  # the guest's memory pressure passed the limit
    SWAP = "swap"  # the guest began to swap
    DEADLINE = "deadline"  # the time it was given is over
    INTERRUPTED = "interrupted"  # by whoever asked, by the agent's end, or because consent or VM went away
    WANTED = "wanted"  # of a hold: the guest uses what it filled again, or fills it again and again
    LOST = "lost"  # the guest stopped answering, or answered with an error


class Compaction(Word):
    """What became of compaction, which makes large free blocks of small ones."""

    NONE = "none"
    RUNNING = "running"
    DONE = "done"
    STOPPED = "stopped"  # by the guest's pressure, or after a minute
    FAILED = "failed"
    UNSUPPORTED = "unsupported"


@dataclass(frozen=True, slots=True)
class ReclaimRequest:
    """What is asked of one VM. Sizes in bytes, times in seconds, moments in unix seconds."""

    id: str
    uuid: str  # the domain's
    size: int | None  # at most; None: all page cache that was not used recently. What is in use is never asked for
    psi_limit: float  # percent; 100 does not stop
    timeout: float  # from its beginning to its end
    reason: str  # why, for people
    by: str  # who asks
    at: Moment
    expires: Moment  # it must have begun by then
    dry_run: bool = False
    hold: float = 0.0  # seconds after its end for which what the guest fills again is reclaimed again

    def check(self) -> ReclaimRequest:
        """The request itself.

        :raises ReclaimError: when it is none that can be carried out
        """
        if self.size is not None and self.size < SMALLEST:
            raise ReclaimError(f"{self.size} bytes: ask for {SMALLEST} or more")
        if not 0 <= self.psi_limit <= 100:
            raise ReclaimError(f"a limit of {self.psi_limit:g} % pressure: say 0 to 100")
        if not 1 <= self.timeout <= _TIMEOUT_MAX:
            raise ReclaimError(f"a timeout of {self.timeout:g} s: say 1 to {_TIMEOUT_MAX:g}")
        if not 0 <= self.hold <= HOLD_MAX:
            raise ReclaimError(f"a hold of {self.hold:g} s: say 0 to {HOLD_MAX:g}")
        if not 0 < self.expires - self.at <= _TIME_TO_LIVE_MAX:
            raise ReclaimError(f"{self.expires - self.at:g} s to live: say up to {_TIME_TO_LIVE_MAX:g}")
        for what, text, limit in (("reason", self.reason, _WHY_MAX), ("name of who asks", self.by, _WHO_MAX)):
            if not text.isprintable() or not 0 < len(text) <= limit:
                raise ReclaimError(f"the {what} is 1 to {limit} printable characters")
        return self


def _queued() -> Verdict:
    return Verdict(Answer.PENDING, Reason.NONE, "queued")


@dataclass(frozen=True, slots=True)
class Hold:
    """What is kept on the host after a reclaim, and what that took so far. Bytes, and unix seconds.

    ``again`` is the guest's word, as ``Reclaim.reclaimed`` is.
    """

    since: Moment
    until: Moment
    kept: int  # page cache that the reclaim left the guest
    used: int  # the part of it that the guest used recently
    again: int = 0  # reclaimed again
    rounds: int = 0  # in so many goes
    fruitless: int = 0  # goes in a row, up to the last, that brought nothing
    boot: str | None = None  # the guest's boot of which this is the page cache; None where it does not say
    stop: Stop | None = None  # why it ended; None while it goes on


@dataclass(frozen=True, slots=True)
class Reclaim:
    """A request and what became of it so far. Bytes; None is not known.

    ``reclaimed`` is the guest's word; ``before`` and ``after`` are the footprint of its QEMU as the host saw it.
    """

    request: ReclaimRequest
    state: ReclaimState = ReclaimState.QUEUED
    verdict: Verdict = field(default_factory=_queued)
    owner: str = ""  # the agent's life that began it
    asked: int | None = None
    reclaimed: int = 0
    compaction: Compaction = Compaction.NONE
    stop: Stop | None = None
    pressure: float | None = None  # percent, the highest seen
    flushed: int | None = None  # reported at its end without waiting for the guest's delay; None: it cannot flush
    calls: int = 0
    before: int | None = None
    after: int | None = None
    begun: Moment | None = None
    ended: Moment | None = None
    held: Hold | None = None  # None: nothing was to be held, or nothing is held yet

    @property
    def returned(self) -> int | None:
        """Bytes the host saw come back meanwhile; what the guest did besides is part of it."""
        if self.before is None or self.after is None:
            return None
        return max(0, self.before - self.after)


def state_of(verdict: Verdict) -> ReclaimState:
    """The state in which a reclaim with such a verdict has ended."""
    if verdict.ok:
        return ReclaimState.DONE
    return ReclaimState.FAILED if verdict.answer is Answer.FAILED else ReclaimState.REFUSED


def released(reclaim: Reclaim, stop: Stop, at: float, reason: Reason = Reason.NONE, why: str = "") -> Reclaim:
    """A reclaim whose hold has ended. What it gave back was given, so it is done whatever ended the hold.

    :param at: unix seconds
    :param why: what ended it before its time
    """
    held = reclaim.held
    if held is None:
        return reclaim
    wished, lasted = held.until - held.since, max(0.0, min(at, held.until) - held.since)
    so_long = f"{wished:.0f} s" if stop is Stop.DONE else f"{lasted:.0f} of {wished:.0f} s"
    detail = f"{reclaim.verdict.detail}; held for {so_long}, {mib(held.again)} MiB reclaimed again"
    return replace(
        reclaim,
        state=ReclaimState.DONE,
        verdict=Verdict(
            reclaim.verdict.answer,
            reclaim.verdict.reason if reason is Reason.NONE else reason,
            f"{detail}: {why}" if why else detail,
        ),
        held=replace(held, stop=stop),
        ended=at,
    )
