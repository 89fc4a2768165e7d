"""Who is hung up on while others wait for a thread: the one that keeps one longest, and sooner the more there are."""

from __future__ import annotations

import contextlib
import socket
from types import SimpleNamespace
from typing import Any, cast

import pytest

from memhint.api.connections import EVERY, REQUEST_MOST, SHORT, SHORTEST, Connection, Waiters

NOW = 1000.0


class One(SimpleNamespace):
    """A connection that a set can hold."""

    def __hash__(self) -> int:  # type: ignore[override]
        return id(self)

    def __eq__(self, other: object) -> bool:
        return self is other


def looked(queued: int, *ages: float, **changes: Any) -> list[float]:
    """The ages of those who are hung up on."""
    waiters = Waiters(NOW)
    for age in ages:
        add(waiters, age, **changes)
    return [NOW - (one.waiting or NOW) for one in waiters.look(queued, NOW)]


def add(waiters: Waiters, age: float, **changes: Any) -> One:
    """One that a thread has waited for, for so long."""
    made = {"known": False, "sending": False, "streams": False, "hung_up": False, "idle": lambda: True, **changes}
    one = One(waiting=NOW - age, since=waiters.clock - age, **made)
    waiters.add(cast("Any", one))
    return one


def test_nobody_is_hung_up_on_while_there_are_threads() -> None:
    assert looked(0, 0.01, 1.0, REQUEST_MOST - 1) == []


def test_who_takes_too_long_is_hung_up_on_whoever_waits() -> None:
    assert looked(0, REQUEST_MOST + 1) == [pytest.approx(REQUEST_MOST + 1)]


def test_for_each_who_waits_the_longest_goes_but_none_who_has_just_come() -> None:
    assert looked(1, 0.2, 0.3, SHORT / 2) == [pytest.approx(0.3)]
    assert looked(3, SHORT / 2, SHORT / 4, SHORT / 5) == []


def test_the_longer_the_queue_the_less_patience() -> None:
    ages = [SHORT / 2] * 8
    assert looked(8, *ages) == []
    assert len(looked(32, *ages)) == 8
    assert looked(100_000, *[SHORTEST * 0.9] * 8) == []


def test_streams_keep_no_thread_from_others() -> None:
    assert looked(5, 1.0, streams=True) == []


def test_who_has_sent_what_no_thread_has_read_is_not_hung_up_on() -> None:
    assert looked(5, 1.0, idle=lambda: False) == []


def test_time_in_which_the_server_had_no_processor_is_not_the_clients() -> None:
    waiters = Waiters(NOW)
    one = add(waiters, 0.0)
    assert waiters.look(1, NOW + SHORT + 1) == []
    found: list[Any] = []
    looks = 0
    while not found:
        looks += 1
        found = waiters.look(1, NOW + SHORT + 1 + looks * EVERY)
    assert found == [one]
    assert looks * EVERY <= SHORT


def test_a_connection_knows_whether_its_client_has_to_do_something() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        one = object.__new__(Connection)
        one.socket = ours
        assert one.idle()
        theirs.sendall(b"GET")
        assert not one.idle()
        one.sending = True
        assert not one.idle()
        ours.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while ours.send(b"answer" * 1000):
                pass
        assert one.idle()
    assert not one.idle()
