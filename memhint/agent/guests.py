"""The conversations with the guests: each looks, and pulls the lever that works within the guest.

Looking and pulling share one conversation, because qemu-ga serves one command at a time and libvirt lets one caller in.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from typing import TypeVar

from memhint.agent.by_turns import ByTurns
from memhint.agent.guest_lever import GuestLever, GuestWish
from memhint.agent.observer import GuestNews
from memhint.agent.turns import Turns
from memhint.backoff import Backoff
from memhint.guest.capabilities import Capabilities, read_capabilities
from memhint.guest.errors import GuestAgentAbsent, GuestError, GuestSilent
from memhint.guest.files import READ_COMMANDS
from memhint.guest.poller import GuestPoller, Task
from memhint.guest.protocol import AgentTransport, GuestAgent
from memhint.guest.reading import GuestReading
from memhint.guest.reporting_knob import read_guest_kernel
from memhint.guest.sources import read_memory, withheld
from memhint.objects.domain import DomainObservation, DomainState
from memhint.objects.gap import Gap
from memhint.objects.guest import GuestKernel
from memhint.objects.policy import Policy
from memhint.objects.tuning import GUESTS_OWN, Tuning
from memhint.objects.verdict import Answer, Reason, Verdict
from memhint.store.errors import StoreError

LOG = logging.getLogger(__name__)
_T = TypeVar("_T")
UNDO_AT_ONCE = 12  # guests; with looks that are under way, and other calls, fewer than the 20 workers of a libvirtd
_LATE = 2  # seconds beyond its call_timeout for a call that works: it may take 1.5 s in the guest by itself


@dataclass(frozen=True, slots=True)
class GuestTiming:
    """Seconds, but for ``in_flight``."""

    interval: float = 10.0  # between two looks at one guest
    call_timeout: int = 2
    conversation_timeout: float = 10.0
    in_flight: int = 4
    backoff_base: float = 5.0
    backoff_max: float = 300.0


class Guests:
    """Everything that goes to and fro through guest agents. Never makes the cycle wait."""

    def __init__(
        self,
        transport: Callable[[str], AbstractContextManager[AgentTransport]],
        timing: GuestTiming,
        *,
        enabled: bool = True,
        wall: Callable[[], float] = time.time,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """:param transport: the way to a domain's guest agent, held for one conversation
        :param enabled: False leaves every guest agent alone; levers that need one say so
        """
        self._transport = transport
        self._timing = timing
        self._enabled = enabled
        self._wall = wall
        self._clock = clock
        self._lock = threading.Lock()
        self._stopping = False
        self._talking = Turns()  # one conversation with a guest at a time
        self._wishes: dict[str, GuestWish] = {}
        self._asked: dict[str, tuple[float, tuple[Policy, Tuning]]] = {}
        self._capabilities: dict[str, tuple[str, Capabilities]] = {}  # by domain, for one QEMU process
        self._lever: GuestLever
        self._poller = GuestPoller(
            self._converse,
            workers=timing.in_flight,
            clock=clock,
            backoff=Backoff(timing.backoff_base, timing.backoff_max),
        )

    def pull_within(self, lever: GuestLever) -> None:
        """Have this lever pulled in every conversation; said before the first one begins."""
        self._lever = lever

    def inherit(self, before: Guests) -> None:
        """Go on from what guests said to an earlier one of this process, and wait for its conversations that are still
        under way.
        """
        self._talking = before._talking
        self._poller.inherit(before._poller)

    def news(self, uuid: str) -> GuestNews:
        """The newest that one guest said."""
        newest = self._poller.newest(uuid)
        reading = newest.reading
        if reading is None:
            return GuestNews(gap=newest.gap)
        gap = newest.gap or next(iter(reading.gaps), None)
        return GuestNews(reading.memory, reading.kernel, gap, reading.instance)

    def changed(self, uuid: str) -> None:
        """Its agent came or went, or it booted: what it could do before says nothing. Safe on the event thread."""
        with self._lock:
            self._asked.pop(uuid, None)
            self._capabilities.pop(uuid, None)
        self._poller.wake(uuid)

    def changed_unseen(self) -> None:
        """The same of any guest, where nobody was there to tell of it. None is asked the sooner for that."""
        with self._lock:
            self._capabilities.clear()

    def follow(
        self,
        domains: Iterable[DomainObservation],
        policies: Mapping[str, Policy],
        tunings: Mapping[str, Tuning] | None = None,
    ) -> None:
        """Start the conversations that are due: the interval is over, what is wished is another, or the guest rests.

        :param tunings: order and delay of reporting, for those who are to have others than their own
        """
        wished = tunings or {}
        wishes = {one.uuid: GuestWish(one, policies[one.uuid], wished.get(one.uuid, GUESTS_OWN)) for one in domains}
        now = self._clock()
        with self._lock:
            self._wishes = wishes
            for table in (self._asked, self._capabilities):
                for uuid in set(table) - set(wishes):
                    del table[uuid]
            due = [Task(uuid, wish.domain.facts.memory) for uuid, wish in wishes.items() if self._due(uuid, wish, now)]
        self._talking.retain(wishes)
        self._poller.retain(wishes)
        self._lever.retain(wishes)
        taken = self._poller.submit(due)
        with self._lock:
            for task in due:
                if task.uuid in taken:
                    self._asked[task.uuid] = (now, wishes[task.uuid].wished)

    @contextmanager
    def conversation(self, uuid: str) -> Iterator[GuestAgent]:
        """A short conversation of somebody else's, between the looks at this guest. Waits for one that is under way.

        :raises GuestAgentAbsent: this guest is not to be asked: no channel, not running, switched off, or stopping
        """
        with self._lock:
            wish, stopping = self._wishes.get(uuid), self._stopping
        if stopping or not self._enabled:
            raise GuestAgentAbsent("the agent is stopping" if stopping else "[guest] enabled is off")
        if wish is None or not wish.domain.facts.guest_agent or wish.domain.state is not DomainState.RUNNING:
            raise GuestAgentAbsent("the VM does not run, or has no channel for a guest agent")
        with self._talking.of(uuid), self._transport(uuid) as transport:
            yield self._agent(transport, self._timing.call_timeout + _LATE)

    def capabilities(self, uuid: str) -> Capabilities | None:
        """What the guest's agent can do, as far as the present one has been asked. Asks no guest."""
        with self._lock:
            known, wish = self._capabilities.get(uuid), self._wishes.get(uuid)
        return known[1] if known is not None and wish is not None and known[0] == _instance(wish.domain) else None

    def ask_capabilities(self, uuid: str) -> Capabilities:
        """What the guest's agent can do; it is asked where that is not known.

        :raises GuestError: it cannot be asked
        """
        known = self.capabilities(uuid)
        if known is not None:
            return known
        with self.conversation(uuid) as agent:
            with self._lock:
                wish = self._wishes.get(uuid)
            if wish is None:
                raise GuestAgentAbsent("the VM is gone")
            return self._capable(wish.domain, agent)

    def settled(self) -> bool:
        """Whether every VM's conversation has had an outcome."""
        with self._lock:
            wishes = dict(self._wishes)
        return all(self._poller.newest(uuid).settled for uuid in wishes)

    def undo(
        self, domains: Iterable[DomainObservation], policies: Mapping[str, Policy], deadline: float
    ) -> dict[str, Verdict]:
        """Put back what memhint changed in the guests, `UNDO_AT_ONCE` at a time and for at most ``deadline`` seconds.

        A guest that does not answer holds a place for ``call_timeout`` per mark, for ``conversation_timeout`` and a
        call more at the worst, and has another turn after all others. Those that did not answer the last time come
        last, and delay nobody; for N that fall silent only now the others wait N / `UNDO_AT_ONCE` times as long.

        :param domains: all of the host's, whether anything may be done to them otherwise or not
        :returns: the verdict per domain UUID of what could not be put back, and still bears a mark
        """
        until = self._clock() + deadline
        wishes = {one.uuid: GuestWish(_as_marked(one), policies[one.uuid]) for one in domains}
        with self._lock:
            self._stopping = True
        self._lever.stop()
        self._poller.close(timeout_s=0.0)
        done: dict[str, Verdict] = {}

        def put_back(uuid: str) -> bool:
            """It is tried again where the guest or libvirt was too slow."""
            done[uuid] = self._put_back(wishes[uuid])
            return done[uuid].answer is not Answer.FAILED

        turns = ByTurns(self._touched(wishes), put_back, until, self._clock)
        no_thread = turns.run(UNDO_AT_ONCE, "undo")
        late = Verdict(Answer.FAILED, Reason.GUEST_TIMEOUT, "the guest took too long")
        too_many = Verdict(Answer.FAILED, Reason.GUEST_TIMEOUT, "it had no turn: other guests took too long")
        if no_thread:
            too_many = Verdict(Answer.FAILED, Reason.KERNEL, no_thread)
        begun = set(turns.begun)
        return {uuid: done.get(uuid, late if uuid in begun else too_many) for uuid in self._lever.owned(wishes)}

    def close(self) -> None:
        """Start and pull nothing more; what hangs is left to end with the process."""
        self._lever.stop()
        self._poller.close(timeout_s=1.0)

    def _due(self, uuid: str, wish: GuestWish, now: float) -> bool:
        if uuid not in self._asked:
            return True
        at, wished = self._asked[uuid]
        rested = wished[1].rests != wish.tuning.rests
        return rested or now - at >= self._timing.interval or wished != wish.wished

    def _converse(self, task: Task) -> GuestReading:
        with self._lock:
            wish = self._wishes.get(task.uuid)
        if wish is None:
            return GuestReading(self._wall())
        if not self._enabled or not wish.domain.facts.guest_agent or wish.domain.state is not DomainState.RUNNING:
            self._lever.pull(wish, None)
            return GuestReading(self._wall())
        with self._talking.of(task.uuid), self._transport(task.uuid) as transport:
            return self._talk(task, wish, self._agent(transport))

    def _talk(self, task: Task, wish: GuestWish, agent: GuestAgent) -> GuestReading:
        try:
            capabilities = self._capable(wish.domain, agent)
        except GuestError as error:
            self._lever.pull(replace(wish, domain=replace(wish.domain, guest_kernel=None)), None, error)
            raise
        at = self._wall()
        gaps: list[Gap] = []
        memory = self._attempt("guest memory", gaps, lambda: read_memory(agent, capabilities, at, task.assigned))
        hidden = None if memory is None else withheld(capabilities, memory)
        if hidden is not None:
            gaps.append(hidden)
        kernel = self._attempt("guest kernel", gaps, lambda: self._kernel(wish.domain, agent, capabilities))
        missing = capabilities.refusal(READ_COMMANDS) if kernel is None else None
        if self._lever.pull(
            replace(wish, domain=replace(wish.domain, guest_kernel=kernel, guest=memory)), agent, missing
        ):
            kernel = self._attempt("guest kernel", gaps, lambda: self._kernel(wish.domain, agent, capabilities))
        return GuestReading(at, memory, kernel, capabilities, tuple(gaps), _instance(wish.domain))

    def _touched(self, uuids: Collection[str]) -> list[str]:
        """The VMs in which something may be changed, those that answered the last time first."""
        try:
            found = self._lever.touched(uuids)
        except StoreError as error:
            LOG.error("which guests were changed is not known, so all are asked: %s", error)
            found = set(uuids)
        return sorted(found, key=lambda uuid: (self._poller.newest(uuid).failures > 0, uuid))

    def _put_back(self, wish: GuestWish) -> Verdict:
        with self._transport(wish.domain.uuid) as transport:
            agent = self._agent(transport) if wish.domain.facts.guest_agent and self._enabled else None
            return self._lever.put_back(wish, agent)

    def _agent(self, transport: AgentTransport, timeout: int | None = None) -> GuestAgent:
        return GuestAgent(
            transport,
            timeout_s=timeout or self._timing.call_timeout,
            deadline_s=self._timing.conversation_timeout,
            clock=self._clock,
        )

    def _capable(self, domain: DomainObservation, agent: GuestAgent) -> Capabilities:
        instance = _instance(domain)
        with self._lock:
            known = self._capabilities.get(domain.uuid)
        if known is not None and known[0] == instance:
            return known[1]
        found = read_capabilities(agent)
        with self._lock:
            self._capabilities[domain.uuid] = (instance, found)
        return found

    def _kernel(self, domain: DomainObservation, agent: GuestAgent, capabilities: Capabilities) -> GuestKernel:
        hint = domain.guest_kernel.balloon_device if domain.guest_kernel is not None else None
        return read_guest_kernel(agent, self._wall(), capabilities, hint)

    def _attempt(self, what: str, gaps: list[Gap], read: Callable[[], _T]) -> _T | None:
        """A part that the guest does not give is a gap; a guest that fell silent ends the conversation."""
        try:
            return read()
        except GuestSilent:
            raise
        except GuestError as error:
            gaps.append(error.gap(what))
            return None


def _as_marked(domain: DomainObservation) -> DomainObservation:
    """What was changed was changed through an agent, of a balloon that reports: also where the definition is unread."""
    if domain.defined:
        return domain
    return replace(domain, facts=replace(domain.facts, guest_agent=True, balloon=True, reporting_offered=True))


def _instance(domain: DomainObservation) -> str:
    return domain.process.instance if domain.process is not None else ""
