"""What is put back in guests as the agent stops: by few threads, of those who bear a mark, until the time is over."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager

import pytest

from memhint.agent.guest_lever import GuestWish
from memhint.agent.guests import UNDO_AT_ONCE, Guests, GuestTiming
from memhint.guest.errors import GuestError, GuestTimeout
from memhint.guest.protocol import AgentTransport, GuestAgent
from memhint.objects.verdict import Answer, Reason, Verdict
from memhint.store.errors import StoreError
from tests.unit import builders
from tests.unit.agent.fake_host import WAIT_S

FAILED = Verdict(Answer.FAILED, Reason.GUEST_TIMEOUT, "no answer")


class Lever:
    """Puts back with one call; what became of that is its mark."""

    def __init__(self, marked: Collection[str]) -> None:
        self.left = set(marked)
        self.pulled: set[str] = set()
        self.store_errors = 0
        self.guard = threading.Lock()

    def pull(self, wish: GuestWish, agent: GuestAgent | None, trouble: GuestError | None = None) -> bool:
        return False

    def stop(self) -> None:
        pass

    def put_back(self, wish: GuestWish, agent: GuestAgent | None) -> Verdict:
        assert agent is not None
        try:
            agent.call("guest-ping")
        except GuestError:
            return FAILED
        with self.guard:
            self.left.discard(wish.domain.uuid)
        return Verdict(Answer.APPLIED)

    def owned(self, among: Collection[str]) -> set[str]:
        if self.store_errors:
            self.store_errors -= 1
            raise StoreError("the database is away")
        with self.guard:
            return self.left & set(among)

    def touched(self, among: Collection[str]) -> set[str]:
        return self.pulled & set(among) | self.owned(among)

    def retain(self, uuids: Collection[str]) -> None:
        pass


class Host:
    """Conversations that are counted. ``answer`` is what a guest does; most put it off until ``together`` talk."""

    def __init__(self, count: int, marked: Collection[str], answer: Callable[[str], None]) -> None:
        self.domains = [builders.domain_observation(uuid=f"vm-{number}") for number in range(count)]
        self.lever = Lever(marked)
        self.answer = answer
        self.opened: list[str] = []
        self.now, self.most = 0, 0
        self.guard = threading.Lock()
        self.time = 0.0
        self.guests = Guests(self.conversation, GuestTiming(), clock=lambda: self.time)
        self.guests.pull_within(self.lever)

    @contextmanager
    def conversation(self, uuid: str) -> Iterator[AgentTransport]:
        def call(request: str, timeout: int) -> str:
            self.answer(uuid)
            return '{"return": {}}'

        with self.guard:
            self.opened.append(uuid)
            self.now += 1
            self.most = max(self.most, self.now)
        try:
            yield call
        finally:
            with self.guard:
                self.now -= 1

    def undo(self, deadline: float = WAIT_S) -> dict[str, Verdict]:
        return self.guests.undo(self.domains, {one.uuid: builders.policy() for one in self.domains}, deadline)


def silent(uuid: str) -> None:
    raise GuestTimeout("no answer")


def names(*numbers: int) -> set[str]:
    return {f"vm-{number}" for number in numbers}


def test_many_guests_are_put_back_by_as_many_threads_as_libvirtd_can_spare() -> None:
    together = threading.Barrier(UNDO_AT_ONCE)
    count = 15 * UNDO_AT_ONCE
    host = Host(count, names(*range(count)), lambda uuid: together.wait(WAIT_S) and None)
    assert host.undo() == {}
    assert (host.most, len(host.opened)) == (UNDO_AT_ONCE, count)
    assert UNDO_AT_ONCE + GuestTiming().in_flight < 20, "libvirtd's workers: looks may still be under way"


def test_with_guests_without_a_mark_nobody_speaks() -> None:
    host = Host(200, names(3, 150), lambda uuid: None)
    assert host.undo() == {}
    assert set(host.opened) == names(3, 150)


def test_a_guest_that_is_being_changed_just_now_has_its_turn_although_it_bears_no_mark_yet() -> None:
    host = Host(20, names(3), lambda uuid: None)
    host.lever.pulled = names(7)
    assert host.undo() == {}
    assert set(host.opened) == names(3, 7)


def test_while_the_marks_cannot_be_read_all_guests_are_asked() -> None:
    host = Host(20, names(3), lambda uuid: None)
    host.lever.store_errors = 1
    assert host.undo() == {}
    assert set(host.opened) == names(*range(20))


def test_guests_that_do_not_answer_are_asked_again_until_the_time_is_over() -> None:
    tries: dict[str, int] = {}

    def late(uuid: str) -> None:
        tries[uuid] = tries.get(uuid, 0) + 1
        if host.lever.left == names(2):
            host.time += WAIT_S / 2
        if uuid == "vm-2" or tries[uuid] == 1:
            silent(uuid)

    host = Host(3, names(0, 1, 2), late)
    assert host.undo() == {"vm-2": FAILED}
    assert (tries["vm-0"], tries["vm-1"]) == (2, 2)
    assert tries["vm-2"] >= 3


def test_guests_that_did_not_answer_before_have_their_turn_after_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many they are, they cost nobody else his."""
    together = threading.Barrier(UNDO_AT_ONCE)

    def answer(uuid: str) -> None:
        if uuid not in hung:
            together.wait(WAIT_S)

    host = Host(10 * UNDO_AT_ONCE, names(*range(10 * UNDO_AT_ONCE)), answer)
    hung = {one.uuid for one in host.domains[: 9 * UNDO_AT_ONCE]}
    newest = host.guests._poller.newest
    monkeypatch.setattr(
        host.guests._poller,
        "newest",
        lambda uuid: newest(uuid) if uuid not in hung else type(newest(uuid))(failures=1),
    )
    assert host.undo() == {}
    assert set(host.opened[:UNDO_AT_ONCE]).isdisjoint(hung)


def test_who_had_no_turn_is_said_to_be_left() -> None:
    together = threading.Barrier(UNDO_AT_ONCE)

    def late(uuid: str) -> None:
        together.wait(WAIT_S)
        host.time = 2 * WAIT_S
        together.wait(WAIT_S)  # or one might end and look at the clock before
        silent(uuid)

    host = Host(3 * UNDO_AT_ONCE, names(*range(3 * UNDO_AT_ONCE)), late)
    left = host.undo()
    assert len(host.opened) == UNDO_AT_ONCE
    assert set(left) == {one.uuid for one in host.domains}
    assert {verdict.reason for verdict in left.values()} == {Reason.GUEST_TIMEOUT}
    assert {uuid for uuid, verdict in left.items() if "no turn" not in verdict.detail} == set(host.opened)


def test_nobody_waits_for_guests_beyond_the_time() -> None:
    end = threading.Event()
    host = Host(2 * UNDO_AT_ONCE, names(*range(2 * UNDO_AT_ONCE)), lambda uuid: end.wait(WAIT_S) and None)
    host.guests._clock = time.monotonic
    began = time.monotonic()
    try:
        left = host.undo(0.5)
    finally:
        end.set()
    assert time.monotonic() - began < WAIT_S
    assert set(left) == {one.uuid for one in host.domains}
    assert {verdict.reason for verdict in left.values()} == {Reason.GUEST_TIMEOUT}


@pytest.mark.parametrize("threads", [0, 1])
def test_on_a_host_that_has_no_more_threads_those_that_there_are_do_it(
    threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[threading.Thread] = []
    start = threading.Thread.start

    def few(thread: threading.Thread) -> None:
        if thread.name == "undo" and len(started) == threads:
            raise RuntimeError("can't start new thread")
        started.append(thread)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", few)
    host = Host(5, names(0, 1, 2, 3, 4), lambda uuid: None)
    left = host.undo()
    assert len(started) == threads
    assert left == ({} if threads else dict.fromkeys(names(*range(5)), left["vm-0"]))
    assert threads or (left["vm-0"].reason is Reason.KERNEL and "can't start" in left["vm-0"].detail)
