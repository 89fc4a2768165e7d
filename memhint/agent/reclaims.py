"""Reclaims under way: requests from the store and from within the agent, one at a time per VM, each on a thread.

A request in the store is marked as running before the guest is asked, so that it is never done twice: what an agent
that ended had begun, its successor says to have failed.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid as uuids
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from memhint.agent.guests import Guests
from memhint.agent.holds import Holds
from memhint.agent.reclaim_work import ReclaimStore, Work, objection
from memhint.levers.cache import CacheLever, CacheTarget
from memhint.levers.cache_hold import CacheHold, interrupted
from memhint.objects.domain import DomainObservation
from memhint.objects.lever import LeverState
from memhint.objects.policy import Policy
from memhint.objects.reclaim import (
    PSI_LIMIT,
    TIME_TO_LIVE,
    TIMEOUT,
    Reclaim,
    ReclaimRequest,
    ReclaimState,
    Stop,
)
from memhint.objects.verdict import Answer, Reason, Verdict
from memhint.store.errors import StoreError

LOG = logging.getLogger(__name__)


class Reclaims:
    """The cache lever's requests of one host. Thread-safe; nothing here makes the cycle wait for a guest."""

    def __init__(
        self,
        guests: Guests,
        store: ReclaimStore,
        footprint: Callable[[DomainObservation], int | None],
        *,
        at_once: int = 4,
        hold_every: float = 10.0,
        lever: CacheLever | None = None,
        wall: Callable[[], float] = time.time,
        start: Callable[[Callable[[], None]], threading.Thread | None] | None = None,
    ) -> None:
        """:param footprint: what this very QEMU process costs the host now, in bytes
        :param at_once: guests that are reclaimed from at the same time
        :param hold_every: seconds, at least, between two looks at a guest whose reclaim holds
        """
        self.lever = lever or CacheLever()
        self._guests = guests
        self._store = store
        self._footprint = footprint
        self._at_once = at_once
        self._wall = wall
        self._start = start or _daemon
        self._owner = uuids.uuid4().hex
        self._lock = threading.Lock()
        self._stopping = False
        self._domains: dict[str, DomainObservation] = {}
        self._policies: dict[str, Policy] = {}
        self._waiting: list[Reclaim] = []  # submitted here, oldest first
        self._queued: set[str] = set()  # VMs for which something waited in the store in the last cycle
        self._working: dict[str, Work] = {}  # by the domain's UUID
        self._newest: dict[str, Reclaim] = {}  # by the domain's UUID: the last that began, or ended without
        self._unsaved: dict[str, Reclaim] = {}  # ended while the store was away, by request
        self._holds = Holds(CacheHold(self.lever, hold_every), self, hold_every, at_once, wall, self._start)

    # -- for callers within the agent --------------------------------------------------------------------------------

    def submit(
        self,
        uuid: str,
        size: int | None,
        *,
        reason: str,
        by: str,
        psi_limit: float = PSI_LIMIT,
        timeout: float = TIMEOUT,
        time_to_live: float = TIME_TO_LIVE,
    ) -> Reclaim:
        """Queue a request that is in no store. It begins in the next cycle, if nothing else of this VM goes on.

        :param size: bytes, None for all that is cold
        :param timeout: seconds from its beginning to its end
        :param time_to_live: seconds within which it must begin
        :raises ReclaimError: on a request that no guest could be asked
        """
        now = self._wall()
        request = ReclaimRequest(
            uuids.uuid4().hex, uuid, size, psi_limit, timeout, reason, by, now, now + time_to_live
        ).check()
        reclaim = Reclaim(request)
        with self._lock:
            self._waiting.append(reclaim)
        return reclaim

    def news(self, uuid: str) -> Reclaim | None:
        """The newest of one VM that began or ended, with its progress; None where there was none."""
        held = self._holds.of(uuid)
        with self._lock:
            work, newest = self._working.get(uuid), self._newest.get(uuid)
        if work is not None:
            return work.reclaim
        if held is not None and newest is not None and newest.request.id == held.reclaim.request.id:
            return held.reclaim
        return newest

    def busy(self, uuid: str) -> bool:
        """Whether something of this VM goes on, or was submitted here and waits. A hold goes on beside others."""
        with self._lock:
            return uuid in self._working or any(one.request.uuid == uuid for one in self._waiting)

    def cancel(self, request: str, why: str) -> None:
        """Take a request back by its id: after the call under way, or before it begins. One that ended stays."""
        word = Verdict(Answer.FAILED, Reason.INTERRUPTED, why)
        with self._lock:
            for one in [one for one in self._waiting if one.request.id == request]:
                self._waiting.remove(one)
                self._newest[one.request.uuid] = self._failed(one, word)
            for work in self._working.values():
                if work.reclaim.request.id == request:
                    work.withdrawn = work.withdrawn or word
        self._holds.cancel(request, word)

    def withdraw(self, uuid: str, by: str, why: str, asked: str | None = None) -> None:
        """Take back what ``by`` submitted here for one VM, whether it waits or goes on.

        :param asked: only what was submitted for this reason
        """
        with self._lock:
            work = self._working.get(uuid)
            mine = [one.request for one in self._waiting if one.request.uuid == uuid]
            if work is not None and not work.stored:
                mine.append(work.reclaim.request)
        for request in mine:
            if request.by == by and asked in (None, request.reason):
                self.cancel(request.id, why)

    # -- for the cycle -----------------------------------------------------------------------------------------------

    def follow(self, domains: Iterable[DomainObservation], policies: Mapping[str, Policy]) -> None:
        """Take up what was asked for since, end what nobody may begin any more, and look after what goes on."""
        with self._lock:
            self._domains = {one.uuid: one for one in domains}
            self._policies = dict(policies)
            self._newest = {uuid: one for uuid, one in self._newest.items() if uuid in self._domains}
            if self._stopping:
                return
        stored = self._from_store()
        with self._lock:
            candidates = [*((one, True) for one in stored), *((one, False) for one in self._waiting)]
            self._queued = {one.request.uuid for one in stored}
        for reclaim, in_store in sorted(candidates, key=lambda pair: pair[0].request.at):
            self._consider(reclaim, in_store)
        with self._lock:
            busy = {*self._working, *self._queued, *(one.request.uuid for one in self._waiting)}
        self._holds.follow(busy)

    def state(self, domain: DomainObservation) -> LeverState:
        """The lever's three fields for one VM."""
        return self.lever.state(domain, self._guests.capabilities(domain.uuid), self.news(domain.uuid))

    def close(self, timeout: float = 5.0) -> None:
        """Begin nothing more, end what goes on after its call under way, and say so in the store.

        :param timeout: seconds to wait for that; what takes longer its successor says to have failed
        """
        word = Verdict(Answer.FAILED, Reason.INTERRUPTED, "the agent was stopped or reloaded while it went on")
        with self._lock:
            self._stopping = True
            threads = [work.thread for work in self._working.values() if work.thread is not None]
            for work in self._working.values():
                work.withdrawn = work.withdrawn or word
        threads += self._holds.close()
        until = time.monotonic() + timeout
        for thread in threads:
            thread.join(max(0.0, until - time.monotonic()))

    # -- inside ------------------------------------------------------------------------------------------------------

    def _from_store(self) -> list[Reclaim]:
        """What waits in the store. An earlier agent's that had begun is ended here."""
        try:
            self._save_late()
            found = self._store.open()
            for one in found:
                if one.owner == self._owner:
                    continue
                lost = Verdict(Answer.FAILED, Reason.INTERRUPTED, "the agent ended while it went on")
                if one.state is ReclaimState.RUNNING:
                    self._store.save(self._failed(one, lost))
                elif one.state is ReclaimState.HOLDING:
                    self._store.save(interrupted(one, lost, self._wall()))
            taken_back = self._store.interrupted()
            for one in found:
                why = taken_back.get(one.request.id)
                if why is None:
                    continue
                self.cancel(one.request.id, why)
                if one.state is ReclaimState.QUEUED:
                    self._store.save(self._failed(one, Verdict(Answer.FAILED, Reason.INTERRUPTED, why)))
        except StoreError as error:
            LOG.error("no requests can be taken up: %s", error)
            return []
        with self._lock:
            known = {work.reclaim.request.id for work in self._working.values()} | set(self._unsaved)
        known |= set(taken_back)
        return [one for one in found if one.state is ReclaimState.QUEUED and one.request.id not in known]

    def _save_late(self) -> None:
        with self._lock:
            late = list(self._unsaved.values())
        for one in late:
            self._store.save(one)
            with self._lock:
                self._unsaved.pop(one.request.id, None)

    def _consider(self, reclaim: Reclaim, in_store: bool) -> None:
        uuid = reclaim.request.uuid
        with self._lock:
            domain = self._domains.get(uuid)
            free = uuid not in self._working and len(self._working) < self._at_once
        free = free and not self._holds.looking(uuid)
        if self._wall() > reclaim.request.expires:
            why = "its VM is not on this host" if domain is None else "its turn did not come"
            self._end_unbegun(
                reclaim, in_store, Verdict(Answer.FAILED, Reason.EXPIRED, f"{why} within its time to live")
            )
        elif domain is not None and free:
            self._begin(domain, reclaim, in_store)

    def _end_unbegun(self, reclaim: Reclaim, in_store: bool, verdict: Verdict) -> None:
        ended = replace(self._failed(reclaim, verdict), state=ReclaimState.EXPIRED)
        with self._lock:
            if not in_store:
                self._waiting.remove(reclaim)
            if ended.request.uuid in self._domains:
                self._newest[ended.request.uuid] = ended
        if in_store:
            self._keep(ended)

    def _begin(self, domain: DomainObservation, reclaim: Reclaim, in_store: bool) -> None:
        running = replace(
            reclaim,
            state=ReclaimState.RUNNING,
            verdict=Verdict(Answer.PENDING, Reason.NONE, f"asked for by {reclaim.request.by}"),
            owner=self._owner,
            begun=self._wall(),
        )
        if in_store:
            try:
                # Before the guest is asked: whoever comes after this agent must not ask it again.
                if not self._store.save(running):
                    return
            except StoreError as error:
                LOG.error("a request is not begun while it cannot be marked: %s", error)
                return
        with self._lock:
            work = Work(domain, self._policies[domain.uuid], running, in_store)
            if not in_store:
                self._waiting.remove(reclaim)
            self._working[domain.uuid] = work
        LOG.info("reclaim %s of %s begins: %s, %s", running.request.id, domain.name, running.request.by,
                 running.request.reason)  # fmt: skip
        try:
            thread = self._start(lambda: self._work(work))
        except RuntimeError as error:  # the machine has no thread to spare
            verdict = Verdict(Answer.FAILED, Reason.HYPERVISOR, f"it could not be begun: {error}")
            self.finished(work, self._failed(running, verdict))
            return
        with self._lock:
            work.thread = thread

    def _work(self, work: Work) -> None:
        uuid, target = work.domain.uuid, self.target(work)
        try:
            ended = self.lever.pull(target, work.reclaim, lambda now: self.progress(work, now))
            ended = self._holds.lever.begin(target, ended, self._wall())
        except Exception as error:  # a defect here must show as a verdict
            LOG.exception("the cache lever failed")
            verdict = Verdict(Answer.FAILED, Reason.HYPERVISOR, f"{type(error).__name__}: {error}")
            ended = replace(work.reclaim, state=ReclaimState.FAILED, verdict=verdict, stop=Stop.LOST)
        if ended.held is None:
            self.finished(work, replace(ended, ended=self._wall()))
            return
        self.progress(work, ended)
        with self._lock:
            self._newest[uuid] = ended
            del self._working[uuid]
        LOG.info("reclaim %s of %s holds: %s", ended.request.id, work.domain.name, ended.verdict)
        self._holds.add(work)

    # -- for its holds too -------------------------------------------------------------------------------------------

    def target(self, work: Work) -> CacheTarget:
        """See HoldOwner."""
        uuid = work.domain.uuid
        with self._lock:
            domain = self._domains.get(uuid, work.domain)
            policy = self._policies.get(uuid, work.policy)
        return CacheTarget(
            domain,
            policy,
            lambda: self._guests.ask_capabilities(uuid),
            lambda: self._guests.conversation(uuid),
            lambda: self._footprint(domain),
        )

    def objection(self, work: Work) -> Verdict | None:
        """See HoldOwner."""
        uuid = work.domain.uuid
        with self._lock:
            return work.withdrawn or objection(work, self._domains.get(uuid), self._policies.get(uuid))

    def waited_for(self, work: Work) -> bool:
        """See HoldOwner."""
        uuid = work.domain.uuid
        with self._lock:
            return uuid in self._queued or any(one.request.uuid == uuid for one in self._waiting)

    def finished(self, work: Work, ended: Reclaim) -> None:
        """See HoldOwner."""
        uuid = work.domain.uuid
        if work.stored:
            self._keep(ended)
        with self._lock:
            newest = self._newest.get(uuid)
            if self._working.get(uuid) is work:
                del self._working[uuid]
                newest = None
            if newest is None or newest.request.id == ended.request.id:
                self._newest[uuid] = ended
        LOG.info("reclaim %s of %s: %s", ended.request.id, work.domain.name, ended.verdict)

    def progress(self, work: Work, now: Reclaim) -> Verdict | None:
        """See HoldOwner."""
        with self._lock:
            moved, work.reclaim = work.reclaim != now, now
        word = self.objection(work)
        if work.stored and (moved or work.unsaved) and word is None:
            try:
                self._store.save(now)
                work.unsaved = False
            except StoreError as error:
                work.unsaved = True
                LOG.warning("the progress of a reclaim is not stored: %s", error)
        return word

    def _keep(self, ended: Reclaim) -> None:
        try:
            self._store.save(ended)
        except StoreError as error:
            LOG.error("how a reclaim ended is stored later: %s", error)
            with self._lock:
                self._unsaved[ended.request.id] = ended

    def _failed(self, reclaim: Reclaim, verdict: Verdict) -> Reclaim:
        return replace(reclaim, state=ReclaimState.FAILED, verdict=verdict, ended=self._wall())


def _daemon(work: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=work, name="reclaim", daemon=True)
    thread.start()
    return thread
