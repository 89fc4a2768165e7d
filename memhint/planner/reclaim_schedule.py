"""Which requests of a host wait, run and hold: a state machine without threads, clock or store.

Of each VM at most one request runs and at most one holds. A hold does not keep others from the guest: a request that
comes meanwhile goes first. Moments are unix seconds, handed in.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from memhint.objects.domain import DomainObservation, DomainState
from memhint.objects.policy import Policy
from memhint.objects.reclaim import Reclaim, ReclaimState, Stop, released
from memhint.objects.verdict import Answer, Reason, Verdict
from memhint.planner.hold import interrupted

MISSES = 3  # looks in a row that the guest did not answer


@dataclass(slots=True, eq=False)
class Task:
    """One request that runs or holds."""

    domain: DomainObservation  # as it was when it began
    policy: Policy
    reclaim: Reclaim
    stored: bool
    withdrawn: Verdict | None = None
    looking: bool = False  # its guest is looked at, or asked again, right now
    looked: float = 0.0  # when the last look began
    missed: int = 0  # looks in a row

    @property
    def uuid(self) -> str:
        """UUID of its domain."""
        return self.domain.uuid


@dataclass(slots=True)
class Due:
    """What is to be done now, in this order."""

    expired: list[Reclaim] = field(default_factory=list)  # of the store
    begin: list[Task] = field(default_factory=list)
    ended: list[Task] = field(default_factory=list)  # holds
    look: list[Task] = field(default_factory=list)


class Schedule:
    """The requests of one host. Callers on several threads hold a lock around each call."""

    def __init__(self, owner: str, at_once: int, every: float) -> None:
        """:param owner: the agent's life
        :param at_once: guests that are asked at the same time, and that are looked at
        :param every: seconds, at least, between two looks at one guest
        """
        self.stopping = False
        self.waiting: list[Reclaim] = []  # submitted within the agent, oldest first
        self.running: dict[str, Task] = {}  # by the domain's UUID
        self.held: dict[str, Task] = {}
        self._owner = owner
        self._at_once = at_once
        self._every = every
        self._domains: dict[str, DomainObservation] = {}
        self._policies: Mapping[str, Policy] = {}
        self._queued: frozenset[str] = frozenset()  # VMs for which something waited in the store in the last cycle
        self._newest: dict[str, Reclaim] = {}  # by the domain's UUID: the last that began, or ended without

    # -- what is asked of it -----------------------------------------------------------------------------------------

    def newest(self, uuid: str) -> Reclaim | None:
        """The newest of one VM that began or ended, with its progress; None where there was none."""
        return self.running[uuid].reclaim if uuid in self.running else self._newest.get(uuid)

    def waited_for(self, uuid: str) -> bool:
        """Whether a request to this VM waits."""
        return uuid in self._queued or self._submitted(uuid)

    def busy(self, uuid: str) -> bool:
        """Whether one runs, or was submitted here and waits."""
        return uuid in self.running or self._submitted(uuid)

    def looking(self, uuid: str) -> bool:
        """Whether a look at this guest goes on."""
        return uuid in self.held and self.held[uuid].looking

    def seen(self, task: Task) -> tuple[DomainObservation, Policy]:
        """Its VM and policy as they were seen last."""
        return self._domains.get(task.uuid, task.domain), self._policies.get(task.uuid, task.policy)

    def objection(self, task: Task) -> Verdict | None:
        """Why it may not go on; None where it may."""
        return task.withdrawn or _objection(task, self._domains.get(task.uuid), self._policies.get(task.uuid))

    # -- what happens to it ------------------------------------------------------------------------------------------

    def cancel(self, request: str, word: Verdict, now: float) -> None:
        """Take a request back by its id: after the call under way, or before it begins. One that ended stays."""
        for one in [one for one in self.waiting if one.request.id == request]:
            self.waiting.remove(one)
            self._note(failed(one, word, now))
        for task in (*self.running.values(), *self.held.values()):
            if task.reclaim.request.id == request:
                task.withdrawn = task.withdrawn or word

    def withdraw(self, uuid: str, by: str, asked: str | None, word: Verdict, now: float) -> None:
        """Take back what ``by`` submitted for one VM and ``asked`` as its reason, where that is not None."""
        task = self.running.get(uuid)
        mine = [one.request for one in self.waiting if one.request.uuid == uuid]
        if task is not None and not task.stored:
            mine.append(task.reclaim.request)
        for request in mine:
            if request.by == by and asked in (None, request.reason):
                self.cancel(request.id, word, now)

    def see(self, domains: Iterable[DomainObservation], policies: Mapping[str, Policy]) -> None:
        """Take over what a cycle saw."""
        self._domains = {one.uuid: one for one in domains}
        self._policies = dict(policies)
        self._newest = {uuid: one for uuid, one in self._newest.items() if uuid in self._domains}

    def due(self, stored: Sequence[Reclaim], now: float) -> Due:
        """What is to be done. Requests that are to begin run from now on, and guests to look at are looked at.

        :param stored: those that wait in the store
        """
        found = Due()
        if self.stopping:
            return found
        self._queued = frozenset(one.request.uuid for one in stored)
        ids = {one.request.id for one in stored}
        for one in sorted((*stored, *self.waiting), key=lambda one: one.request.at):
            self._consider(one, one.request.id in ids, now, found)
        # Who has waited longest comes first: there may be more of them than are looked at at once.
        for task in sorted((task for task in self.held.values() if not task.looking), key=lambda task: task.looked):
            self._hold_on(task, now, found)
        return found

    def put_back(self, task: Task) -> None:
        """It was not begun, or its guest not looked at: nothing was done."""
        task.looking = False
        if self.running.get(task.uuid) is task:
            del self.running[task.uuid]

    def progress(self, task: Task, now: Reclaim) -> tuple[bool, Verdict | None]:
        """Take over how far it has come; whether that is news, and why it may not go on."""
        moved, task.reclaim = task.reclaim != now, now
        self._note(now)
        return moved, self.objection(task)

    def ran(self, task: Task, done: Reclaim, now: float) -> list[Task]:
        """It was carried out: it has ended, or holds from now on. The tasks that ended by this."""
        del self.running[task.uuid]
        self._newest[task.uuid] = task.reclaim = done
        if done.held is None or done.state.ended:
            return [task]
        if self.stopping:
            return [self._ended(task, interrupted(done, STOPPED, now))]
        before, self.held[task.uuid] = self.held.get(task.uuid), task
        task.looked = now
        return [] if before is None else [self._ended(before, interrupted(before.reclaim, REPLACED, now))]

    def looked(self, task: Task, found: Reclaim, now: float, *, lost: bool = False) -> list[Task]:
        """A look is over. The tasks that ended by this.

        :param lost: the guest did not answer, and ``found`` is how it ends where that goes on
        """
        task.looking = False
        if self.held.get(task.uuid) is not task:
            return []  # another one took its place
        task.missed = task.missed + 1 if lost else 0
        if lost and task.missed < MISSES:
            found = task.reclaim
        word = None if found.state.ended else self.objection(task)
        if word is not None:  # the agent stops, so it is not followed any more
            found = interrupted(found, word, now)
        if found.state.ended:
            return [self._drop(task, found)]
        task.reclaim = found
        return []

    def stop(self, now: float) -> list[Task]:
        """Nothing more begins; what goes on ends after its call. The holds that ended."""
        self.stopping = True
        for task in self.running.values():
            task.withdrawn = task.withdrawn or replace(STOPPED, detail=f"{STOPPED.detail} while it went on")
        for task in self.held.values():
            task.withdrawn = task.withdrawn or STOPPED
        idle = [task for task in self.held.values() if not task.looking]
        return [self._drop(task, interrupted(task.reclaim, task.withdrawn or STOPPED, now)) for task in idle]

    # -- inside ------------------------------------------------------------------------------------------------------

    def _submitted(self, uuid: str) -> bool:
        return any(one.request.uuid == uuid for one in self.waiting)

    def _consider(self, one: Reclaim, stored: bool, now: float, found: Due) -> None:
        uuid = one.request.uuid
        domain = self._domains.get(uuid)
        if now > one.request.expires:
            why = "its VM is not on this host" if domain is None else "its turn did not come"
            word = Verdict(Answer.FAILED, Reason.EXPIRED, f"{why} within its time to live")
            ended = replace(failed(one, word, now), state=ReclaimState.EXPIRED)
            if domain is not None:
                self._note(ended)
            if stored:
                found.expired.append(ended)
            else:
                self.waiting.remove(one)
        elif domain is not None and self._free(uuid):
            asked = Verdict(Answer.PENDING, Reason.NONE, f"asked for by {one.request.by}")
            begun = replace(one, state=ReclaimState.RUNNING, verdict=asked, owner=self._owner, begun=now)
            self.running[uuid] = task = Task(domain, self._policies[uuid], begun, stored)
            found.begin.append(task)
            if not stored:
                self.waiting.remove(one)

    def _free(self, uuid: str) -> bool:
        return uuid not in self.running and len(self.running) < self._at_once and not self.looking(uuid)

    def _hold_on(self, task: Task, now: float, found: Due) -> None:
        held, word = task.reclaim.held, self.objection(task)
        if word is not None:
            found.ended.append(self._drop(task, interrupted(task.reclaim, word, now)))
        elif held is None or now >= held.until:
            found.ended.append(self._drop(task, released(task.reclaim, Stop.DONE, now)))
        elif not self.waited_for(task.uuid) and task.uuid not in self.running and self._may_look(task, now):
            task.looking, task.looked = True, now
            found.look.append(task)

    def _may_look(self, task: Task, now: float) -> bool:
        at_once = sum(one.looking for one in self.held.values())
        return now - task.looked >= self._every and at_once < self._at_once

    def _drop(self, task: Task, ended: Reclaim) -> Task:
        del self.held[task.uuid]
        return self._ended(task, ended)

    def _ended(self, task: Task, ended: Reclaim) -> Task:
        task.reclaim = ended
        self._note(ended)
        return task

    def _note(self, now: Reclaim) -> None:
        """Show it, unless one that began later is shown."""
        shown = self._newest.get(now.request.uuid)
        if shown is None or shown.request.id == now.request.id or now.begun is None:
            self._newest[now.request.uuid] = now


def failed(reclaim: Reclaim, verdict: Verdict, now: float) -> Reclaim:
    """A request that ends without its hold."""
    return replace(reclaim, state=ReclaimState.FAILED, verdict=verdict, ended=now)


def orphaned(found: Iterable[Reclaim], owner: str, now: float) -> list[Reclaim]:
    """How requests end that another life of the agent had begun: they are never done twice."""
    lost = Verdict(Answer.FAILED, Reason.INTERRUPTED, "the agent ended while it went on")
    others = [one for one in found if one.owner != owner]
    return [
        *(failed(one, lost, now) for one in others if one.state is ReclaimState.RUNNING),
        *(interrupted(one, lost, now) for one in others if one.state is ReclaimState.HOLDING),
    ]


def _objection(task: Task, domain: DomainObservation | None, policy: Policy | None) -> Verdict | None:
    """Whether VM and consent are still those under which it began; None where they are."""
    if domain is None or policy is None or domain.state is not DomainState.RUNNING:
        return Verdict(Answer.FAILED, Reason.NOT_RUNNING, "the VM went away meanwhile")
    if _instance(domain) not in ("", _instance(task.domain)):
        return Verdict(Answer.FAILED, Reason.NOT_RUNNING, "the VM was started again meanwhile")
    if not policy.guest_actions:
        return Verdict(Answer.REFUSED, Reason.CONSENT, "guest_actions was set to deny meanwhile")
    return None


def _instance(domain: DomainObservation) -> str:
    return domain.process.instance if domain.process is not None else ""


STOPPED = Verdict(Answer.FAILED, Reason.INTERRUPTED, "the agent was stopped or reloaded")
REPLACED = Verdict(Answer.FAILED, Reason.INTERRUPTED, "a newer request to the same VM holds instead")
