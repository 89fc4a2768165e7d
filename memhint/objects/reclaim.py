"""A request that one guest give back page cache, and what became of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from memhint.objects.units import KIB
from memhint.objects.verdict import Answer, Reason, Verdict

PSI_LIMIT = 10.0  # percent of the time that the guest may lose waiting for memory
TIMEOUT = 60.0  # seconds that a reclaim may take
TIME_TO_LIVE = 60.0  # seconds within which it must have begun
SMALLEST = 64 * KIB  # bytes: no less than one page, whatever the guest's page size
_TIMEOUT_MAX = 3600.0
_TIME_TO_LIVE_MAX = 86400.0
_WHY_MAX = 200
_WHO_MAX = 64


class ReclaimError(ValueError):
    """A request that no guest could be asked; the text says what is wrong."""


class ReclaimState(StrEnum):
    """How far a request has come."""

    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"  # also where it stopped early by its own limits
    FAILED = "failed"
    REFUSED = "refused"  # a rule forbids it, or this guest cannot
    EXPIRED = "expired"  # nobody began it within its time to live

    @property
    def ended(self) -> bool:
        """True once nothing more will happen."""
        return self not in (ReclaimState.QUEUED, ReclaimState.RUNNING)


class Stop(StrEnum):
    """Why a reclaim that had begun came to its end."""

    DONE = "done"  # all that was asked for
    EXHAUSTED = "exhausted"  # the guest has no more page cache to give up
    PRESSURE = "pressure"  # the guest's memory pressure passed the limit
    SWAP = "swap"  # the guest began to swap
    DEADLINE = "deadline"  # the time it was given is over
    INTERRUPTED = "interrupted"  # by whoever asked, by the agent's end, or because consent or VM went away
    LOST = "lost"  # the guest stopped answering, or answered with an error


class Compaction(StrEnum):
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
    at: float
    expires: float  # it must have begun by then
    dry_run: bool = False

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
        if not 0 < self.expires - self.at <= _TIME_TO_LIVE_MAX:
            raise ReclaimError(f"{self.expires - self.at:g} s to live: say up to {_TIME_TO_LIVE_MAX:g}")
        for what, text, limit in (("reason", self.reason, _WHY_MAX), ("name of who asks", self.by, _WHO_MAX)):
            if not text.isprintable() or not 0 < len(text) <= limit:
                raise ReclaimError(f"the {what} is 1 to {limit} printable characters")
        return self


def _queued() -> Verdict:
    return Verdict(Answer.PENDING, Reason.NONE, "queued")


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
    begun: float | None = None
    ended: float | None = None

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
