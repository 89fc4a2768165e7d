"""Judged hours in the store: whose turn it is, each hour once, and what is told of them."""

from __future__ import annotations

from sqlalchemy import delete, func, select

from memhint.objects.promise import HostPromises, KeptPromises, PromisedHour
from memhint.store import Store
from memhint.store.fleet import State
from memhint.store.parts import AT_ONCE
from memhint.store.promises import SHOWN, Promises
from memhint.store.tables import host, host_summary, promise_hour
from tests.clock import Clock
from tests.unit import builders

BEGIN = 1_700_000_000.0
DAY = 86400.0


def opened(store: Store, *hosts: str) -> tuple[Promises, Clock]:
    for name in hosts:
        store.fleet.take([State(builders.report(host=name, epoch="000000000000001-00000000", sequence=1), 1.0)])
    clock = Clock(BEGIN)
    return Promises(store.database, 30 * DAY, clock), clock


def hour(number: int, promised: int, came: int) -> PromisedHour:
    return PromisedHour(number * 3600.0, promised, came)


def test_each_host_is_due_once_an_hour_and_goes_on_where_it_was(store: Store) -> None:
    promises, clock = opened(store, "host-a", "host-b")
    first, second = promises.due(), promises.due()
    assert first is not None
    assert second is not None
    assert (first.host, first.since, second.host) == ("host-a", 0.0, "host-b")
    assert first.reserve == builders.report().plan.capacity.reserve
    assert promises.due() is None
    promises.add("host-a", [], 7200.0)
    clock.now += 3601
    again = promises.due()
    assert again is not None
    assert (again.host, again.since) == ("host-a", 7200.0)


def test_a_clock_that_was_years_ahead_keeps_no_host_from_being_judged(store: Store) -> None:
    promises, clock = opened(store, "host-a")
    promises.add("host-a", [hour(1, 5, 9)], 7200.0)
    clock.now += 3650 * DAY
    assert promises.due() is not None
    promises.add("host-a", [], clock.now)
    clock.now = BEGIN
    again = promises.due()
    assert again is not None
    assert promises.of("host-a") is not None, "it made no hour old"
    assert promises.due() is None


def test_an_hour_is_judged_once_and_the_worst_are_told(store: Store) -> None:
    promises, _ = opened(store, "host-a")
    promises.due()
    assert promises.of("host-a") is None
    promises.add("host-a", [hour(1, 5, 9), hour(2, 5, 4)], 3 * 3600.0)
    promises.add("host-a", [hour(2, 5, 9), hour(3, 0, -7), hour(4, 0, 2**45)], 5 * 3600.0)
    assert promises.of("host-a") == KeptPromises(
        4, 2, 3600.0, (hour(3, 0, -7), hour(2, 5, 4), hour(1, 5, 9), hour(4, 0, 2**45))
    )
    promises.add("host-a", [hour(number, 0, number) for number in range(10, 40)], 40 * 3600.0)
    found = promises.of("host-a")
    assert found is not None
    assert (found.hours, found.held, len(found.worst)) == (34, 32, SHOWN)


def test_the_fleet_is_told_host_by_host_from_an_hour_on(store: Store) -> None:
    promises, _ = opened(store, "host-a", "host-b", "host-c")
    assert promises.since(0.0) == ()
    promises.add("host-b", [hour(1, 5, -9), hour(2, 5, 9), hour(3, 2**45, -(2**45))], 0.0)
    promises.add("host-a", [hour(1, 5, 4), hour(2, 5, 9)], 0.0)
    assert promises.since(3600.0) == (HostPromises("host-a", 2, 1, 1), HostPromises("host-b", 3, 1, 2**46))
    assert promises.since(3600.5) == (HostPromises("host-a", 1, 1, 0), HostPromises("host-b", 2, 1, 2**46))
    assert promises.since(4 * 3600.0) == ()


def test_what_is_told_of_the_last_hours_costs_the_same_however_many_there_were_before(store: Store) -> None:
    promises, _ = opened(store)
    steps: list[int] = []

    def work() -> int:
        """SQLite's steps in one question, in tens."""
        steps.clear()
        with store.database.engine.connect() as connection:
            made = connection.connection.driver_connection
            assert made is not None
            made.set_progress_handler(lambda: steps.append(1), 10)
        promises.since(5000 * 3600.0)
        made.set_progress_handler(None, 0)
        return len(steps)

    names = [f"host-{number:02d}" for number in range(11)]
    for name in names:
        promises.add(name, [hour(number, 5, 9) for number in range(4990, 5024)], 0.0)
    before = work()
    for name in names:
        promises.add(name, [hour(number, 5, 9) for number in range(1000, 4990)], 0.0)
    assert [(one.host, one.hours) for one in promises.since(5000 * 3600.0)] == [(name, 24) for name in names]
    assert 0 < work() <= 1.2 * before


def test_a_host_of_a_large_fleet_is_told_once_and_so_is_an_hour_that_is_judged_late(store: Store) -> None:
    promises, _ = opened(store)
    names = [f"host-{number:04d}" for number in range(AT_ONCE + 1)]
    for name in names:
        promises.add(name, [hour(9, 5, 9)], 0.0)
    promises.add(names[0], [hour(8, 5, 4)], 0.0)
    found = Promises(store.database, 30 * DAY).since(8 * 3600.0)
    assert [one.host for one in found] == names
    assert found[:2] == (HostPromises(names[0], 2, 1, 1), HostPromises(names[1], 1, 1, 0))


def test_hours_go_when_they_are_old_and_with_their_host(store: Store) -> None:
    promises, clock = opened(store, "host-a", "host-b")
    for _ in range(2):
        promises.due()
    for name in ("host-a", "host-b"):
        promises.add(name, [hour(1, 5, 9), hour(900, 5, 9)], 31 * DAY)
    found = promises.of("host-a")
    assert found is not None
    assert (found.hours, found.since) == (1, 900 * 3600.0)
    with store.database.write() as connection:
        connection.execute(delete(host).where(host.c.name == "host-a"))
        connection.execute(delete(host_summary).where(host_summary.c.name == "host-a"))
    clock.now += 3601
    due = promises.due()
    assert due is not None
    assert due.host == "host-b"
    with store.database.read() as connection:
        assert connection.execute(select(func.count()).select_from(promise_hour)).scalar() == 1
