"""Requests of one host's guests carried out, each on a thread; what is due when, `planner/reclaim_schedule.py` says.

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
from memhint.agent.reclaim_store import ReclaimStore
from memhint.guest.errors import GuestError
from memhint.levers.cache import CacheLever, CacheTarget
from memhint.levers.cache_hold import CacheHold, lost
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
from memhint.planner.hold import interrupted
from memhint.planner.reclaim_schedule import Schedule, Task, failed, orphaned
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
        self.hold = CacheHold(self.lever, hold_every)
        self._guests = guests
        self._store = store
        self._footprint = footprint
        self._wall = wall
        self._start = start or _daemon
        self._owner = uuids.uuid4().hex
        self._lock = threading.Lock()  # guards the schedule
        self._schedule = Schedule(self._owner, at_once, hold_every)
        self._threads: list[threading.Thread] = []
        self._saving = threading.Lock()  # what is stored late is not stored after what is newer
        self._unsaved: dict[str, Reclaim] = {}  # by request, while the store is away

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
            self._schedule.waiting.append(reclaim)
        return reclaim

    def news(self, uuid: str) -> Reclaim | None:
        """The newest of one VM that began or ended, with its progress; None where there was none."""
        with self._lock:
            return self._schedule.newest(uuid)

    def busy(self, uuid: str) -> bool:
        """Whether something of this VM goes on, or was submitted here and waits. A hold goes on beside others."""
        with self._lock:
            return self._schedule.busy(uuid)

    def cancel(self, request: str, why: str) -> None:
        """Take a request back by its id: after the call under way, or before it begins. One that ended stays."""
        with self._lock:
            self._schedule.cancel(request, _taken_back(why), self._wall())

    def withdraw(self, uuid: str, by: str, why: str, asked: str | None = None) -> None:
        """Take back what ``by`` submitted here for one VM, whether it waits or goes on.

        :param asked: only what was submitted for this reason
        """
        with self._lock:
            self._schedule.withdraw(uuid, by, asked, _taken_back(why), self._wall())

    # -- for the cycle -----------------------------------------------------------------------------------------------

    def follow(self, domains: Iterable[DomainObservation], policies: Mapping[str, Policy]) -> None:
        """Take up new requests, end those that came too late to begin, and look after those under way."""
        with self._lock:
            self._schedule.see(domains, policies)
            if self._schedule.stopping:
                return
        stored = self._from_store()
        with self._lock:
            due = self._schedule.due(stored, self._wall())
        left = [*due.begin, *due.look]
        try:
            for one in due.expired:
                self._keep(one)
            self._finished(due.ended)
            while left:
                self._take_up(left[0])
                left.pop(0)
        finally:  # a defect in one must not block the others' guests
            for task in left:
                self._put_back(task)

    def state(self, domain: DomainObservation) -> LeverState:
        """The lever's three fields for one VM."""
        return self.lever.state(domain, self._guests.capabilities(domain.uuid), self.news(domain.uuid))

    def close(self, timeout: float = 5.0) -> None:
        """Begin nothing more, end what goes on after its call under way, and say so in the store.

        :param timeout: seconds to wait for that; what takes longer its successor says to have failed
        """
        with self._lock:
            ended, threads = self._schedule.stop(self._wall()), self._threads
        self._finished(ended)
        until = time.monotonic() + timeout
        for thread in threads:
            thread.join(max(0.0, until - time.monotonic()))

    # -- the store ---------------------------------------------------------------------------------------------------

    def _from_store(self) -> list[Reclaim]:
        """What waits in the store. An earlier agent's that had begun is ended here."""
        try:
            self._save_late()
            found = self._store.open()
            for one in orphaned(found, self._owner, self._wall()):
                self._store.save(one)
            taken_back = self._store.interrupted()
            for one in found:
                why = taken_back.get(one.request.id)
                if why is None:
                    continue
                self.cancel(one.request.id, why)
                if one.state is ReclaimState.QUEUED:
                    self._store.save(failed(one, _taken_back(why), self._wall()))
        except StoreError as error:
            LOG.error("no requests can be taken up: %s", error)
            return []
        with self._lock:
            known = {task.reclaim.request.id for task in self._schedule.running.values()}
        known |= {*self._unsaved, *taken_back}
        return [one for one in found if one.state is ReclaimState.QUEUED and one.request.id not in known]

    def _save_late(self) -> None:
        with self._saving:
            for one in list(self._unsaved.values()):
                self._store.save(one)
                del self._unsaved[one.request.id]

    def _marked(self, begun: Reclaim) -> bool:
        """Before the guest is asked: the next agent must not ask it again."""
        try:
            return self._store.save(begun)
        except StoreError as error:
            LOG.error("a request is not begun while it cannot be marked: %s", error)
            return False

    def _keep(self, reclaim: Reclaim) -> None:
        with self._saving:
            try:
                self._store.save(reclaim)
                self._unsaved.pop(reclaim.request.id, None)
            except StoreError as error:
                LOG.error("what became of a reclaim is stored later: %s", error)
                self._unsaved[reclaim.request.id] = reclaim

    def _finished(self, ended: Iterable[Task]) -> None:
        for task in ended:
            if task.stored:
                self._keep(task.reclaim)
            LOG.info("reclaim %s of %s: %s", task.reclaim.request.id, task.domain.name, task.reclaim.verdict)

    # -- on threads --------------------------------------------------------------------------------------------------

    def _take_up(self, task: Task) -> None:
        if task.looking:
            self._on_thread(task, self._look)
        elif not task.stored or self._marked(task.reclaim):
            LOG.info("reclaim %s of %s begins: %s, %s", task.reclaim.request.id, task.domain.name,
                     task.reclaim.request.by, task.reclaim.request.reason)  # fmt: skip
            self._on_thread(task, self._run)
        else:
            self._put_back(task)

    def _on_thread(self, task: Task, work: Callable[[Task], None]) -> None:
        try:
            thread = self._start(lambda: work(task))
        except RuntimeError as error:  # the machine has no thread to spare
            if task.looking:
                LOG.error("a guest whose reclaim holds is looked at later: %s", error)
                self._put_back(task)
            else:
                word = Verdict(Answer.FAILED, Reason.HYPERVISOR, f"it could not be begun: {error}")
                self._ran(task, failed(task.reclaim, word, self._wall()))
            return
        with self._lock:
            self._threads = [one for one in (*self._threads, thread) if one is not None and one.is_alive()]

    def _run(self, task: Task) -> None:
        target = self._target(task)
        try:
            done = self.lever.pull(target, task.reclaim, lambda now: self._progress(task, now))
            done = self.hold.begin(target, done, self._wall())
        except Exception as error:  # a defect here must show as a verdict
            LOG.exception("the cache lever failed")
            done = replace(task.reclaim, state=ReclaimState.FAILED, verdict=_defect(error), stop=Stop.LOST)
        if done.held is None:
            done = replace(done, ended=self._wall())
        else:
            self._progress(task, done)
            LOG.info("reclaim %s of %s holds: %s", done.request.id, task.domain.name, done.verdict)
        self._ran(task, done)

    def _ran(self, task: Task, done: Reclaim) -> None:
        with self._lock:
            ended = self._schedule.ran(task, done, self._wall())
        self._finished(ended)

    def _look(self, task: Task) -> None:
        missed, before = False, task.reclaim
        try:
            found = self.hold.look(
                self._target(task), before, self._wall, lambda now: self._progress(task, now),
                lambda: self._waited_for(task),
            )  # fmt: skip
            if found != before and not found.state.ended:
                self._progress(task, found)
        except GuestError as error:
            missed, found = True, lost(before, error, self._wall())
        except Exception as error:  # a defect here must show as a verdict
            LOG.exception("a hold failed")
            found = interrupted(task.reclaim, _defect(error), self._wall())
        with self._lock:
            ended = self._schedule.looked(task, found, self._wall(), lost=missed)
        self._finished(ended)

    def _progress(self, task: Task, now: Reclaim) -> Verdict | None:
        """Keep how far it has come; why it may not go on."""
        with self._lock:
            moved, word = self._schedule.progress(task, now)
        if task.stored and moved and word is None:
            self._keep(now)
        return word

    def _waited_for(self, task: Task) -> bool:
        with self._lock:
            return self._schedule.waited_for(task.uuid)

    def _put_back(self, task: Task) -> None:
        with self._lock:
            self._schedule.put_back(task)

    def _target(self, task: Task) -> CacheTarget:
        """The VM as the lever sees it."""
        with self._lock:
            domain, policy = self._schedule.seen(task)
        return CacheTarget(
            domain,
            policy,
            lambda: self._guests.ask_capabilities(task.uuid),
            lambda: self._guests.conversation(task.uuid),
            lambda: self._footprint(domain),
        )


def _taken_back(why: str) -> Verdict:
    return Verdict(Answer.FAILED, Reason.INTERRUPTED, why)


def _defect(error: Exception) -> Verdict:
    return Verdict(Answer.FAILED, Reason.HYPERVISOR, f"{type(error).__name__}: {error}")


def _daemon(work: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=work, name="reclaim", daemon=True)
    thread.start()
    return thread
