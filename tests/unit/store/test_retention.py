"""A clock that jumps deletes nothing: neither a host's own history nor the fleet's, nor what an operator wished."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import func, select

from memhint.objects.history import HistoryPoint
from memhint.store import Store, open_store
from memhint.store.central_policies import CentralPolicies
from memhint.store.fleet import Fleet
from memhint.store.light import aging
from memhint.store.retention import proven
from memhint.store.tables import event, host_history
from tests.unit import builders
from tests.unit.store.lived import lived

NOW = builders.NOW
DAY, YEARS = 86400.0, 7 * 365 * 86400.0


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = open_store(f"sqlite:///{tmp_path}/memhint.db", host="host-1")
    yield opened
    opened.close()


def report(at: float, sequence: int = 1):
    return replace(builders.report(), host="host-1", at=at, sequence=sequence)


def count(store: Store, table) -> int:
    with store.database.read() as connection:
        return int(connection.execute(select(func.count()).select_from(table)).scalar_one())


def test_a_clock_set_forward_by_years_deletes_nothing_of_a_host(store: Store) -> None:
    for hour in range(72):
        store.reports.save(report(NOW + hour * 3600.0, hour))
        store.events.record("host-1", NOW + hour * 3600.0, [builders.lever_state()])
    points, events = count(store, host_history), count(store, event)
    for second in range(3):
        store.reports.save(report(NOW + YEARS + second * 400.0, 100 + second))
        store.events.record("host-1", NOW + YEARS + second * 400.0, [builders.lever_state()])
    assert count(store, host_history) == points + 3
    assert count(store, event) == events + 3


def test_a_clock_that_has_been_there_for_long_enough_is_believed(store: Store) -> None:
    store.events.record("host-1", NOW, [builders.lever_state()])
    for hour in range(14):
        store.reports.save(report(NOW + YEARS + hour * 3600.0, hour))
    store.events.record("host-1", NOW + YEARS + 14 * 3600.0, [builders.lever_state()])
    assert count(store, event) == 1


@pytest.mark.parametrize(
    ("ago", "believed"),
    [
        ((), False),
        ((0.2,), False),
        ((0.6,), False),
        ((1.9,), False),
        ((0.3, 0.6), True),
        ((0.4, 1.9), True),
        ((0.3, 2.5), False),
        ((0.2, 0.6), False),
    ],
)
def test_what_proves_a_clock(store: Store, ago: tuple[float, ...], believed: bool) -> None:
    """Points from long ago and from lately, in days where a day is kept."""
    with store.database.write() as connection:
        points = [("host-1", HistoryPoint(NOW - one * DAY, 0, 0, 0, 0, 0, 0, 0, None)) for one in ago]
        store.history.add(connection, points)
    with store.database.read() as connection:
        assert proven(connection, NOW, DAY) is believed
    with closing(sqlite3.connect(str(store.database.engine.url.database))) as light:
        assert aging.proven(light, NOW, DAY) is believed


@pytest.mark.parametrize("ahead", [13, 25, 47])
def test_a_clock_that_is_hours_ahead_deletes_nothing(store: Store, ahead: int) -> None:
    for hour in range(25):
        at = NOW + hour * 3600.0
        store.reports.save(report(at, hour))
        store.events.record("host-1", at, [builders.lever_state()])
    events = count(store, event)
    for minute in range(3):
        at = NOW + (24 + ahead) * 3600.0 + minute * 60.0
        store.reports.save(report(at, 100 + minute))
        store.events.record("host-1", at, [builders.lever_state()])
    assert count(store, event) == events + 3


def test_a_database_set_forward_by_years_forgets_no_host_and_no_wish(store: Store) -> None:
    now = [NOW]
    parts = (store.database, store.history, store.events, store.reports._summaries, store.reclaims)
    fleet = Fleet(*parts, 30 * DAY, lambda _: now[0])
    central = CentralPolicies(store.database, lambda _: now[0])
    lived(store, NOW, DAY)
    points = count(store, host_history)
    store.reports.save(report(NOW))
    store.events.record("host-1", NOW, [builders.lever_state()])
    wished = central.set(builders.OLD, {"class": "guaranteed"})
    now[0] += YEARS
    fleet.sweep()
    fleet.tidy()
    assert fleet.forget(30 * DAY) == ()
    assert central.prune(30 * DAY) == 0
    assert central.of(builders.OLD) == wished
    assert count(store, event) == 1
    assert count(store, host_history) == points + 1
