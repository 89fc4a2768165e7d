"""The holds of one host: after a reclaim, a look at its guest now and then, and what it filled again taken back.

A hold does not keep anybody else from the guest: a request that comes meanwhile goes first.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection
from typing import Protocol

from memhint.agent.reclaim_work import Work
from memhint.guest.errors import GuestError
from memhint.levers.cache import CacheTarget
from memhint.levers.cache_hold import CacheHold, interrupted, lost
from memhint.objects.reclaim import Reclaim, Stop, released
from memhint.objects.verdict import Answer, Reason, Verdict

LOG = logging.getLogger(__name__)
_MISSES = 3  # looks in a row that the guest did not answer


class HoldOwner(Protocol):
    """What the holds need of the one who has them."""

    def target(self, work: Work) -> CacheTarget:
        """The VM as the lever sees it."""

    def objection(self, work: Work) -> Verdict | None:
        """Why it may not go on; None where it may."""

    def progress(self, work: Work, now: Reclaim) -> Verdict | None:
        """Keep the progress; a verdict where it may not go on."""

    def waited_for(self, work: Work) -> bool:
        """Whether another request to its VM waits."""

    def finished(self, work: Work, ended: Reclaim) -> None:
        """Keep how it ended."""


class Holds:
    """Thread-safe. What happens of itself happens on the thread that calls ``follow``, looks on their own."""

    def __init__(
        self,
        lever: CacheHold,
        owner: HoldOwner,
        every: float,
        at_once: int,
        wall: Callable[[], float],
        start: Callable[[Callable[[], None]], threading.Thread | None],
    ) -> None:
        """:param every: seconds, at least, between two looks at one guest
        :param at_once: guests that are looked at at the same time
        """
        self.lever = lever
        self._owner = owner
        self._every = every
        self._at_once = at_once
        self._wall = wall
        self._start = start
        self._lock = threading.Lock()
        self._stopping = False
        self._held: dict[str, Work] = {}  # by the domain's UUID
        self._looked: dict[str, float] = {}  # when the last look began
        self._looking: set[str] = set()
        self._missed: dict[str, int] = {}  # looks in a row

    def add(self, work: Work) -> None:
        """Hold what this reclaim left, in the place of an earlier hold of the same VM."""
        uuid = work.domain.uuid
        with self._lock:
            stopping, before = self._stopping, None
            if not stopping:
                before, self._held[uuid] = self._held.get(uuid), work
                self._looked[uuid], self._missed[uuid] = self._wall(), 0
        if stopping:
            self._owner.finished(work, interrupted(work.reclaim, _STOPPED, self._wall()))
        if before is not None:
            self._owner.finished(before, interrupted(before.reclaim, _REPLACED, self._wall()))

    def of(self, uuid: str) -> Work | None:
        """What is held of one VM."""
        with self._lock:
            return self._held.get(uuid)

    def looking(self, uuid: str) -> bool:
        """Whether this guest is being looked at, or asked again, right now."""
        with self._lock:
            return uuid in self._looking

    def cancel(self, request: str, word: Verdict) -> None:
        """End the hold of a request with the next ``follow``, or after the call under way."""
        with self._lock:
            for work in self._held.values():
                if work.reclaim.request.id == request:
                    work.withdrawn = work.withdrawn or word

    def follow(self, busy: Collection[str]) -> None:
        """End what is over, and begin the looks that are due.

        :param busy: UUIDs of VMs of which something else goes on, or waits
        """
        with self._lock:
            idle = [(uuid, work) for uuid, work in self._held.items() if uuid not in self._looking]
            # Who has waited longest comes first: there may be more of them than are looked at at once.
            idle.sort(key=lambda pair: self._looked.get(pair[0], 0.0))
        now = self._wall()
        for uuid, work in idle:
            held, word = work.reclaim.held, self._owner.objection(work)
            if word is not None:
                self._end(work, interrupted(work.reclaim, word, now))
            elif held is None or now >= held.until:
                self._end(work, released(work.reclaim, Stop.DONE, now))
            else:
                if work.unsaved:
                    self._owner.progress(work, work.reclaim)
                if uuid not in busy:
                    self._begin_look(uuid, work, now)

    def close(self) -> list[threading.Thread]:
        """End every hold, those that are being looked at after the call under way; the threads of these."""
        with self._lock:
            self._stopping = True
            works = list(self._held.values())
            looking = [work for uuid, work in self._held.items() if uuid in self._looking]
            for work in works:
                work.withdrawn = work.withdrawn or _STOPPED
        for work in works:
            if work not in looking:
                self._end(work, interrupted(work.reclaim, work.withdrawn or _STOPPED, self._wall()))
        return [work.thread for work in looking if work.thread is not None]

    def _begin_look(self, uuid: str, work: Work, now: float) -> None:
        with self._lock:
            if now - self._looked.get(uuid, now) < self._every or len(self._looking) >= self._at_once:
                return
            self._looking.add(uuid)
            self._looked[uuid] = now
        try:
            thread = self._start(lambda: self._look(uuid, work))
        except RuntimeError as error:  # the machine has no thread to spare
            LOG.error("a guest whose reclaim holds is looked at later: %s", error)
            with self._lock:
                self._looking.discard(uuid)
            return
        with self._lock:
            work.thread = thread

    def _look(self, uuid: str, work: Work) -> None:
        try:
            try:
                found = self._look_once(uuid, work)
                word = None if found.state.ended else self._owner.objection(work)
                ended = found if found.state.ended else None
                if word is not None:  # nobody follows it any more where the agent stops
                    ended = interrupted(found, word, self._wall())
            except Exception as error:  # a defect here must show as a verdict
                LOG.exception("a hold failed")
                failed = Verdict(Answer.FAILED, Reason.HYPERVISOR, f"{type(error).__name__}: {error}")
                ended = interrupted(work.reclaim, failed, self._wall())
            if ended is not None:
                self._end(work, ended)
        finally:
            with self._lock:
                self._looking.discard(uuid)

    def _look_once(self, uuid: str, work: Work) -> Reclaim:
        def progress(now: Reclaim) -> Verdict | None:
            return self._owner.progress(work, now)

        before = work.reclaim
        try:
            found = self.lever.look(
                self._owner.target(work), before, self._wall, progress, lambda: self._owner.waited_for(work)
            )
        except GuestError as error:
            with self._lock:
                missed = self._missed[uuid] = self._missed.get(uuid, 0) + 1
            return before if missed < _MISSES else lost(before, error, self._wall())
        with self._lock:
            self._missed[uuid] = 0
        if found != before and not found.state.ended:
            progress(found)
        return found

    def _end(self, work: Work, ended: Reclaim) -> None:
        uuid = work.domain.uuid
        with self._lock:
            if self._held.get(uuid) is not work:
                return  # another one ended it, or took its place
            del self._held[uuid]
            self._looked.pop(uuid, None)
            self._missed.pop(uuid, None)
        self._owner.finished(work, ended)


_STOPPED = Verdict(Answer.FAILED, Reason.INTERRUPTED, "the agent was stopped or reloaded")
_REPLACED = Verdict(Answer.FAILED, Reason.INTERRUPTED, "a newer request to the same VM holds instead")
