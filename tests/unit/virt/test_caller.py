"""A libvirtd that is slow keeps its connection, and what was read on it; one that says nothing any more does not."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import libvirt
import pytest

from lab.waiting import wait_for
from memhint.virt.bounded import Bounded
from memhint.virt.caller import COUNTS, SILENT_S, Caller
from memhint.virt.connection import Connection, DomainEvent, Event
from memhint.virt.definitions import Definitions
from memhint.virt.errors import CallTimeout

UUIDS = [f"vm-{number}" for number in range(30)]
WAIT_S = 60.0  # for threads; never reached unless the test fails
SLOW = "bulk statistics"


class Libvirtd:
    """Answers at once, but for what is called slow: that comes when it is let go on."""

    def __init__(self) -> None:
        self.connections = 0
        self.read: list[str] = []
        self.go_on = threading.Event()
        self.freed: set[int] = set()  # connections on which nothing hangs any more
        self.slow: list[int] = []  # connections of the calls that were slow

    def open(self, _uri: str) -> Link:
        self.connections += 1
        return Link(self, self.connections)


class Link:
    """One connection to it."""

    def __init__(self, libvirtd: Libvirtd, number: int) -> None:
        self._libvirtd, self.number = libvirtd, number

    def __getattr__(self, _name: str) -> Callable[..., int]:
        return lambda *_: 0  # what it is told of callbacks

    def lookupByUUIDString(self, uuid: str) -> Domain:
        self._libvirtd.read.append(uuid)
        return Domain()

    def statistics(self) -> int:
        self._libvirtd.slow.append(self.number)
        freed, go_on = self._libvirtd.freed, self._libvirtd.go_on
        wait_for(lambda: go_on.is_set() or self.number in freed, WAIT_S, "the test to let it go on")
        return self.number


class Domain:
    """One VM."""

    def XMLDesc(self) -> str:
        return "<domain type='kvm'><memory unit='KiB'>1048576</memory></domain>"

    def isPersistent(self) -> int:
        return 1


class Impatient(Bounded):
    """Does not wait for what is slow, and long for everything else."""

    def call(self, what: str, function: Callable[[], Any], timeout: float) -> Any:
        return super().call(what, function, 0.01 if what == SLOW else WAIT_S)


class Agent:
    """What an agent has of libvirt, on a clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 0.0
        self.told: list[Event] = []
        self.caller = Caller(
            Connection("test:///default", self._listen), 2.0, clock=lambda: self.now, bounded=Impatient
        )
        self.definitions = Definitions(self.caller, 3600.0)

    def _listen(self, event: Event) -> None:
        self.told.append(event)
        self.definitions.invalidate(event.uuid)

    def late(self) -> None:
        with pytest.raises(CallTimeout):
            self.caller.call(SLOW, lambda link: link.statistics())

    def hang(self, libvirtd: Libvirtd, number: int) -> None:
        """Three calls, on the connection of this number."""
        for _ in range(3):
            self.late()
        wait_for(lambda: libvirtd.slow.count(number) == 3, WAIT_S, "all three to be asked")

    def number(self) -> int:
        """Of the connection that a call has."""
        return int(self.caller.call("number", lambda link: link.number))


@pytest.fixture
def libvirtd(monkeypatch: pytest.MonkeyPatch) -> Iterator[Libvirtd]:
    made = Libvirtd()
    monkeypatch.setattr(libvirt, "open", made.open)
    yield made
    made.go_on.set()


def test_what_is_always_late_costs_neither_the_connection_nor_what_was_read(libvirtd: Libvirtd) -> None:
    agent = Agent()
    for _ in range(5):
        agent.late()
        found, gaps = agent.definitions.read(UUIDS, agent.now)
        assert (found.keys(), gaps) == (set(UUIDS), {})
        libvirtd.go_on.set()
        wait_for(lambda: not agent.caller._bounded.hanging, WAIT_S, "the late answer")
        libvirtd.go_on.clear()
        agent.now += 10.0
    assert libvirtd.connections == 1
    assert [one.kind for one in agent.told] == [DomainEvent.CONNECTED]
    assert sorted(libvirtd.read) == sorted(UUIDS)


def test_an_answer_that_comes_late_is_nobodys_and_shows_that_the_connection_works(libvirtd: Libvirtd) -> None:
    agent = Agent()
    agent.late()
    agent.now = 0.9 * SILENT_S
    libvirtd.go_on.set()
    wait_for(lambda: not agent.caller._bounded.hanging, WAIT_S, "the late answer")
    libvirtd.go_on.clear()
    agent.now = SILENT_S
    agent.late()
    agent.now = 1.9 * SILENT_S
    assert agent.number() == 1


def test_a_connection_on_which_nothing_comes_back_is_given_up_for_another_one(libvirtd: Libvirtd) -> None:
    agent = Agent()
    agent.late()
    agent.now = SILENT_S - 1.0
    agent.late()
    assert libvirtd.connections == 1
    agent.now = SILENT_S
    assert agent.number() == 2
    assert [one.kind for one in agent.told] == [DomainEvent.CONNECTED] * 2
    libvirtd.go_on.set()  # what comes from the first one now harms nobody
    wait_for(lambda: not agent.caller._bounded.hanging, WAIT_S, "the late answers")
    assert agent.number() == 2


def test_one_call_that_hangs_beside_others_that_are_answered_costs_no_connection(libvirtd: Libvirtd) -> None:
    agent = Agent()
    agent.late()
    agent.now = SILENT_S - 1.0
    assert agent.number() == 1
    agent.now = 10 * SILENT_S
    assert agent.number() == 1


def test_calls_that_hang_on_a_connection_that_was_given_up_keep_none_from_the_next_one(libvirtd: Libvirtd) -> None:
    agent = Agent()
    agent.hang(libvirtd, 1)
    with pytest.raises(CallTimeout, match="number was not asked for: 3 calls to libvirt hang already"):
        agent.number()
    agent.now = SILENT_S
    assert agent.number() == 2
    assert libvirtd.slow == [1, 1, 1]  # they hang as before


def test_no_more_calls_hang_than_two_connections_have_and_the_next_one_counts_anew_when_one_is_free(
    libvirtd: Libvirtd,
) -> None:
    agent = Agent()
    for number in range(1, COUNTS + 1):
        agent.hang(libvirtd, number)
        agent.now += SILENT_S
    for _ in range(3):
        with pytest.raises(CallTimeout, match="number was not asked for: 3 calls to libvirt hang already"):
            agent.number()
        agent.now += SILENT_S
    assert libvirtd.connections == COUNTS
    first = agent.caller._before[0]
    libvirtd.freed.add(1)
    wait_for(lambda: not first.hanging, WAIT_S, "the calls on the first connection to end")
    assert agent.number() == COUNTS + 1
    agent.hang(libvirtd, COUNTS + 1)
    with pytest.raises(CallTimeout, match="hang already"):
        agent.number()
