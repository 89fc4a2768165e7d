"""Judging promises: of hours that are over, from what the store has of hosts."""

from __future__ import annotations

import pytest

from memhint.controller.backtest import PATIENCE, Judge
from memhint.objects.history import HistoryPoint
from memhint.objects.promise import PromisedHour
from memhint.objects.units import GIB
from memhint.planner.backtest import HOUR
from memhint.store import Store
from memhint.store.fleet import State
from memhint.store.promises import Promises
from tests.unit import builders

BEGIN = 1_700_000_000.0 // HOUR * HOUR


class Fleet:
    """A host with a history, and one clock for all."""

    def __init__(self, store: Store) -> None:
        self.now = BEGIN
        self.store = store
        store.fleet.take([State(builders.report(host="host-a", epoch="000000000000001-00000000", sequence=1), 1.0)])
        self.reserve = builders.report().plan.capacity.reserve
        self.judge = Judge(Promises(store.database, 1e7, lambda _: self.now), store.history, lambda: self.now)

    def tell(self, hour: int, promised: int, left: int) -> None:
        """Two moments of an hour: what is promised at the first, and what is left beyond the reserve at the second."""
        begin = BEGIN + hour * HOUR
        points = [
            HistoryPoint(begin + 5, promised, 0, 0, 0, 0, 2**40, 0, None),
            HistoryPoint(begin + 900, 0, 0, 0, 0, 0, self.reserve + left, 0, None),
        ]
        with self.store.database.write() as connection:
            self.store.history.add(connection, [("host-a", one) for one in points])


def test_hours_that_are_over_are_judged_once_and_the_one_under_way_waits(store: Store) -> None:
    fleet = Fleet(store)
    for hour, left in enumerate((3 * GIB, GIB, 5 * GIB)):
        fleet.tell(hour, 2 * GIB, left)
    fleet.now = BEGIN + 2 * HOUR + PATIENCE + 1
    assert fleet.judge.round()
    assert not fleet.judge.round()
    assert fleet.judge.counts == {"held": 1, "broken": 1}
    kept = store.promises.of("host-a")
    assert kept is not None
    assert (kept.hours, kept.held) == (2, 1)
    assert kept.worst[0] == PromisedHour(BEGIN + HOUR, 2 * GIB, GIB)
    fleet.now += HOUR + 1
    assert fleet.judge.round()
    assert fleet.judge.counts == {"held": 2, "broken": 1}


def test_a_broken_promise_is_said_in_the_log(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    fleet = Fleet(store)
    fleet.tell(0, 2 * GIB, -GIB)
    fleet.now = BEGIN + 2 * HOUR
    fleet.judge.round()
    assert "host-a did not keep its promise in 1 of 1 hours: at worst 2048 MiB were promised and 0 were there" in (
        caplog.text
    )


def test_a_clock_that_was_years_ahead_neither_ends_judging_nor_makes_hours_old(store: Store) -> None:
    fleet = Fleet(store)
    for hour in range(3):
        fleet.tell(hour, 2 * GIB, 3 * GIB)
    fleet.now = BEGIN + 1 * HOUR + PATIENCE + 1
    assert fleet.judge.round()
    right, fleet.now = fleet.now, fleet.now + 10 * 365 * 24 * HOUR
    assert fleet.judge.round()
    fleet.now = right + HOUR
    for _ in range(2):
        assert fleet.judge.round()
        fleet.now += HOUR + 1
    kept = store.promises.of("host-a")
    assert kept is not None
    assert kept.hours == 3
    assert fleet.judge.counts == {"held": 3, "broken": 0}, "each once"


def test_hours_that_an_agent_tells_of_too_late_are_not_judged(store: Store) -> None:
    fleet = Fleet(store)
    fleet.now = BEGIN + 2 * HOUR
    fleet.judge.round()
    fleet.tell(0, 2 * GIB, -GIB)
    fleet.now += 2 * HOUR
    assert fleet.judge.round()
    assert store.promises.of("host-a") is None
