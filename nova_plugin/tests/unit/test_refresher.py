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


@pytest.mark.parametrize(("interval", "most"), [(5.0, 15.0), (60.0, 60.0)])
def test_pauses_are_spread_and_grow_with_failures_to_a_quarter_of_a_minute(refresher, interval, most) -> None:
    for chance in (0.0, 0.5, 1.0):
        one = refresher(Looks(), interval=interval, chance=lambda chance=chance: chance)
        assert 0.9 * interval <= one.pause(0) <= 1.1 * interval
        for failures in range(1, 40):
            longest = min(most, interval * 2**failures)
            assert longest / 2 <= one.pause(failures) <= longest


class Fleet:
    """Hosts that report once in their period, on a clock that only the test moves."""

    def __init__(self, *periods) -> None:
        self.now = 100.0
        self._periods = periods

    def look(self, token):
        return news(*(self._told(number, period) for number, period in enumerate(self._periods)))

    def _told(self, number, period):
        sequence = int(self.now / period)
        return told(number, period=period, sequence=sequence, at=sequence * period)

    def refresher(self, interval, chance=0.5) -> Refresher:
        return Refresher(
            lambda: self, Counts(), interval, clock=lambda: self.now, wall=lambda: self.now, chance=lambda: chance
        )


@pytest.mark.parametrize("interval", [0.5, 5.0, 60.0, 300.0])
@pytest.mark.parametrize("periods", [(1.0,), (10.0, 2.0), (7.0, 60.0), (600.0,)])
def test_no_host_is_stale_between_two_looks(interval, periods) -> None:
    fleet = Fleet(*periods)
    one = fleet.refresher(interval, chance=1.0)  # the longest pause
    for _ in range(200):
        one.refresh(fleet)
        pause = one.pause(0)
        assert pause <= 1.1 * interval
        fleet.now += pause
        assert all(host.expires >= fleet.now for host in one._snapshot.hosts.values())


def test_hosts_are_known_again_soon_after_the_api_is_back_however_long_it_was_away() -> None:
    fleet = Fleet(10.0)
    one = fleet.refresher(60.0, chance=1.0)
    one.refresh(fleet)
    fleet.now += 3600.0  # what is known is too old by now
    assert max(one.pause(failures) for failures in range(1, 100)) == 15.0


@pytest.mark.parametrize("change", [{"state": "silent"}, {"at": 900.0}])
def test_hosts_that_no_look_makes_usable_are_not_looked_for_more_often(refresher, change) -> None:
    one = refresher(Looks(), interval=5.0, chance=lambda: 0.5)
    one.refresh(Looks(news(told(1), told(2, period=1.0, **change))))
    assert one.pause(0) == 5.0
    one.refresh(Looks(news(told(2, period=1.0, sequence=8))))
    assert one.pause(0) == 1.0
    one.refresh(Looks(news(told(1))))
    assert one.pause(0) == 5.0


@pytest.mark.parametrize(("interval", "usual"), [(5.0, 0.5), (0.5, 0.5)])
def test_no_period_makes_looks_follow_each_other_without_a_pause(refresher, interval, usual) -> None:
    one = refresher(Looks(), interval=interval, chance=lambda: 0.5)
    one.refresh(Looks(news(told(1, period=0.001))))
    assert one.pause(0) == usual


def test_one_host_makes_nobody_look_more_often_and_is_named_whoever_was_before(refresher, caplog) -> None:
    one = refresher(Looks(), interval=5.0, chance=lambda: 0.5)
    one.refresh(Looks(news(told(1), told(2), told(3, period=4.9))))
    one.refresh(Looks(news(told(1), told(2), told(3, period=4.9), told(4), told(5, period=0.5))))
    assert one.pause(0) == 5.0
    assert [name in line for name, line in zip(("host-3", "host-5"), caplog.messages, strict=True)] == [True, True]


def test_an_interval_beyond_a_hosts_period_is_told_of_once_by_both_names(refresher, caplog) -> None:
    one = refresher(Looks(), interval=5.0)
    one.refresh(Looks(news(told(1))))
    assert not caplog.records
    for sequence in (7, 8):
        one.refresh(Looks(news(told(1), told(2, period=2.0, sequence=sequence))))
    (line,) = caplog.messages
    assert "[memhint] interval of nova.conf is 5 s" in line
    assert "host-2 reports every 2 s ([DEFAULT] period" in line
