"""The background thread: one per process, it fails softly, and nobody waits for it but the first request."""

from __future__ import annotations

import os
import threading
import time

import pytest
from memhint_nova.client import News
from memhint_nova.counts import Counts
from memhint_nova.errors import LookFailed
from memhint_nova.refresher import Refresher

from tests.told import told

DEADLINE = 20.0


class Looks:
    """Brings what it is told to, and lets a test wait for it."""

    def __init__(self, *brought) -> None:
        self.brought = list(brought)
        self.tokens: list[str | None] = []
        self.done = threading.Event()
        self.hold = threading.Event()
        self.hold.set()

    def look(self, token):
        assert self.hold.wait(DEADLINE)
        self.tokens.append(token)
        if not self.brought:
            self.done.set()
            raise LookFailed("there is no more")
        one = self.brought.pop(0)
        if isinstance(one, Exception):
            raise one
        return one


def news(*hosts, token="t", deleted=(), whole=True) -> News:
    return News(hosts, deleted, token, whole)


@pytest.fixture
def refresher():
    made = []

    def make(looks, interval=0.001, **settings):
        counts = Counts()
        one = Refresher(lambda: looks, counts, interval, wall=lambda: 1000.0, **settings)
        one.counts = counts
        made.append((one, looks))
        return one

    yield make
    for one, looks in made:
        one.stop()
        looks.hold.set()


def test_news_follow_each_other_by_token(refresher) -> None:
    looks = Looks(news(told(1), token="a"), news(told(2), token="b", whole=False), None, LookFailed("away"))
    one = refresher(looks)
    one.view()
    assert looks.done.wait(DEADLINE)
    assert looks.tokens == [None, "a", "b", "b", "b"]
    assert set(one.view().hosts) == {"host-1", "host-2"}
    counted = one.counts.all()
    assert (counted["looks.whole"], counted["looks.changes"], counted["looks.unchanged"]) == (1, 1, 1)
    assert counted["looks.failed"] >= 1


def test_what_is_known_stays_when_the_api_is_away(refresher) -> None:
    looks = Looks(news(told(1)))
    one = refresher(looks)
    one.view()
    assert looks.done.wait(DEADLINE)
    assert set(one.view().hosts) == {"host-1"}


def test_a_failure_that_should_not_be_does_not_end_the_thread(refresher) -> None:
    looks = Looks(RuntimeError("a bug"), news(told(1)))
    one = refresher(looks)
    one.view()
    assert looks.done.wait(DEADLINE)
    assert set(one.view().hosts) == {"host-1"}


def test_a_host_that_is_not_understood_costs_only_itself(refresher) -> None:
    looks = Looks(news(told(1), told(2, headroom=-5), {"name": 4}, told(3)))
    one = refresher(looks)
    one.view()
    assert looks.done.wait(DEADLINE)
    assert set(one.view().hosts) == {"host-1", "host-3"}
    assert one.counts.all()["looks.bad_host"] == 2


def test_the_first_request_waits_for_the_first_answer(refresher) -> None:
    one = refresher(Looks(news(told(1))), first_wait=DEADLINE)
    assert set(one.view().hosts) == {"host-1"}


def test_it_waits_no_longer_than_allowed_and_only_once(refresher) -> None:
    looks = Looks(news(told(1)))
    looks.hold.clear()
    now = [0.0]
    one = refresher(looks, first_wait=0.01, clock=lambda: now[0])
    assert one.view().at is None
    now[0] = 0.02
    waited = threading.Event()
    one._first.wait = lambda left: waited.set()  # would be the second wait
    assert one.view().at is None
    assert not waited.is_set()


def test_a_failed_first_look_lets_the_first_request_go(refresher) -> None:
    one = refresher(Looks(LookFailed("refused")), first_wait=DEADLINE, interval=DEADLINE)
    assert one.view().at is None


def test_a_forked_worker_has_a_thread_of_its_own(refresher) -> None:
    looks = Looks(news(told(1)))
    one = refresher(looks)
    one.view()
    assert looks.done.wait(DEADLINE)
    one.stop()
    while any(thread.name == "memhint-snapshot" for thread in threading.enumerate()):
        time.sleep(0.01)
    reading, writing = os.pipe()
    looks.brought.append(news(told(2)))
    child = os.fork()
    if child == 0:
        looks.brought[:] = [news(told(5))]
        one._first_wait = DEADLINE
        os.write(writing, ",".join(one.view().hosts).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        assert pipe.read() == "host-5"
    os.waitpid(child, 0)


def test_pauses_are_spread_and_grow_with_failures_to_a_minute(refresher) -> None:
    for chance in (0.0, 0.5, 1.0):
        one = refresher(Looks(), interval=5.0, chance=lambda chance=chance: chance)
        assert 4.5 <= one.pause(0) <= 5.5
        for failures in range(1, 40):
            longest = min(60.0, 5.0 * 2**failures)
            assert longest / 2 <= one.pause(failures) <= longest
