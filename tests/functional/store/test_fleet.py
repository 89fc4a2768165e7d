"""Many hosts in one store, on every database: what is newest, what counts once, who is silent."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from dataclasses import replace

import pytest

from memhint.objects.event import Event
from memhint.objects.history import HistoryPoint
from memhint.objects.summary import Freshness
from memhint.objects.units import GIB
from memhint.store import Store, open_store
from memhint.store.errors import StoreRefused
from memhint.store.fleet import Fleet, HostEventKind, HostRecord, State
from memhint.store.hosts_view import HostsView
from memhint.store.summaries import Summaries
from tests.clock import Clock
from tests.told import happened, pulls
from tests.unit import builders
from tests.unit.builders import NOW

FIRST, SECOND = "001700000000000-0000000a", "001700000000001-0000000b"
PERIOD = 10.0


@pytest.fixture
def clock() -> Clock:
    return Clock(NOW)


def fleet_of(store: Store, clock: Clock) -> Fleet:
    return Fleet(
        store.database, store.history, store.events, Summaries(store.domain_history), store.reclaims, 3600.0, clock
    )


@pytest.fixture
def fleet(store: Store, clock: Clock) -> Fleet:
    return fleet_of(store, clock)


def state(sequence: int, epoch: str = FIRST, host: str = "host-a", **changes: object) -> State:
    made = builders.report(host=host, epoch=epoch, sequence=sequence, at=NOW + sequence * PERIOD)
    return State(replace(made, **changes), sequence * PERIOD)


def past(*sequences: int, host: str = "host-a", lost: int = 0, epoch: str = FIRST, spool: str = "") -> HostRecord:
    points = tuple(HistoryPoint(NOW + one, GIB, GIB, GIB, GIB, GIB, GIB, 0, None) for one in sequences)
    lever = builders.lever_state()
    events = tuple(Event(NOW + one, host, lever.subject, lever.lever, "on", lever.verdict) for one in sequences)
    return HostRecord(host, points, events, lost, (), epoch, spool)


def kinds(store: Store) -> list[str]:
    return [one.kind for one in reversed(happened(store))]


def newest(store: Store) -> tuple[str, int]:
    report = store.reports.newest("host-a")
    assert report is not None
    return (report.epoch, report.sequence)


def test_the_newest_is_decided_by_epoch_and_sequence_whatever_order_they_come_in(
    fleet: Fleet, store: Store, clock: Clock
) -> None:
    sent = [state(number, epoch) for epoch in (FIRST, SECOND) for number in range(4)] * 2
    random.Random(7).shuffle(sent)
    for one in sent:
        clock.now += 0.5
        fleet.take([one])
    assert newest(store) == (SECOND, 3)
    assert [(one.name, one.epoch, one.sequence) for one in fleet.hosts()] == [("host-a", SECOND, 3)]
    fleet.take([*sent, state(4, SECOND), state(9, FIRST)])
    assert newest(store) == (SECOND, 4)


def test_what_comes_twice_counts_once(fleet: Fleet, store: Store) -> None:
    for batch in ([past(1, 2)], [past(2, 3), past(1)], [past(3, 2, 1)]):
        fleet.take([], batch)
    assert [point.at - NOW for point in store.history.of("host-a")] == [1, 2, 3]
    assert sorted(one.at - NOW for one in pulls(store)) == [1, 2, 3]


def test_losses_are_told_as_they_grow(fleet: Fleet, store: Store, clock: Clock) -> None:
    fleet.take([state(1)])
    for lost in (0, 5, 5, 3, 7):
        clock.now += 1
        fleet.take([], [past(lost=lost)])
    assert [one.detail for one in reversed(happened(store))] == ["", "5 points and events", "2 points and events"]
    assert fleet.hosts()[0].lost == 7


def test_losses_of_which_records_tell_at_once_are_told_together(fleet: Fleet, store: Store) -> None:
    fleet.take([state(1)])
    fleet.take([], [past(1, lost=5), past(2, lost=8), past(3, lost=8)])
    assert [one.detail for one in reversed(happened(store))] == ["", "8 points and events"]


def test_losses_of_a_spool_that_was_made_anew_are_told_from_its_beginning(
    fleet: Fleet, store: Store, clock: Clock
) -> None:
    def told(lost: int, epoch: str, spool: str) -> list[str]:
        before = len(happened(store))
        clock.now += 1
        fleet.take([], [past(lost=lost, epoch=epoch, spool=spool)])
        return [one.detail for one in reversed(happened(store))][before:]

    fleet.take([state(1)])
    assert told(5000, FIRST, "one") == ["5000 points and events"]
    assert told(4, SECOND, "two") == [], "its life is not known yet"
    fleet.take([state(1, SECOND)])
    assert told(4, SECOND, "two") == ["4 points and events"]
    assert told(5002, FIRST, "one") == [], "a late one of the life before"
    assert told(4, SECOND, "two") == []
    assert told(3, SECOND, "two") == []
    assert told(6, SECOND, "two") == ["2 points and events"]
    assert (fleet.hosts()[0].lost, fleet.hosts()[0].spool) == (6, "two")


def test_losses_that_were_told_before_agents_named_their_spools_are_not_told_again(
    fleet: Fleet, store: Store, clock: Clock
) -> None:
    fleet.take([state(1)])
    for lost, spool in ((5000, ""), (5003, "one"), (5003, ""), (5004, "one")):
        clock.now += 1
        fleet.take([], [past(lost=lost, spool=spool)])
    details = [one.detail for one in reversed(happened(store))]
    assert details == ["", "5000 points and events", "3 points and events", "1 point or event"]


def test_a_spool_that_was_made_anew_with_an_upgrade_counts_from_what_it_says(
    fleet: Fleet, store: Store, clock: Clock
) -> None:
    fleet.take([state(1)])
    for lost, spool in ((5000, ""), (3, "one"), (7, "one")):
        clock.now += 1
        fleet.take([], [past(lost=lost, spool=spool)])
    details = [one.detail for one in reversed(happened(store))]
    assert details == ["", "5000 points and events", "4 points and events"]


def test_a_silent_host_is_marked_once_and_told_when_it_is_back(fleet: Fleet, store: Store, clock: Clock) -> None:
    fleet.take([state(0), state(0, host="host-b")])
    clock.now += 30.0
    assert fleet.sweep() == ()
    fleet.take([state(3, host="host-b")])
    clock.now += 0.1
    assert fleet.sweep() == ("host-a",)
    assert fleet.sweep() == ()
    assert [(one.name, one.silent) for one in fleet.hosts()] == [("host-a", True), ("host-b", False)]
    fleet.take([state(4)])
    assert [one.silent for one in fleet.hosts()] == [False, False]
    assert kinds(store) == ["appeared", "appeared", "silent", "returned"]


def test_no_host_is_silent_for_as_long_as_nobody_could_listen_to_it(fleet: Fleet, clock: Clock) -> None:
    fleet.take([state(0), state(0, host="host-b", period=60.0)])
    clock.now += 3600.0
    assert fleet.sweep(listened=29.9) == ()
    assert fleet.sweep(listened=30.0) == ("host-a",)
    assert fleet.sweep(listened=179.9) == ()
    assert fleet.sweep(listened=180.0) == ("host-b",)


def test_a_report_that_was_long_under_way_is_as_old_as_it_is(fleet: Fleet, store: Store, clock: Clock) -> None:
    fleet.take([state(0)])
    clock.now += 55.0
    fleet.sweep()
    # Made 20 s after the first one, so 35 s ago; it waited here for a database.
    fleet.take([replace(state(2), held=20.0)])
    assert fleet.hosts()[0].heard == pytest.approx(NOW + 20.0, abs=0.1)
    assert kinds(store) == ["appeared", "silent"]


@pytest.mark.parametrize("step", [45.0, 60.0, 3600.0])
def test_a_host_that_reports_is_fresh_again_soon_after_the_databases_clock_was_put_forward(
    fleet: Fleet, store: Store, clock: Clock, step: float
) -> None:
    for number in range(8):
        fleet.take([state(number)])
        clock.now += PERIOD + (step if number == 4 else 0.0)
    assert fleet.sweep() == ()
    assert fleet.hosts()[0].heard == pytest.approx(clock.now - PERIOD, abs=0.1)
    line = HostsView(store.database, clock).one("host-a")
    assert line is not None
    assert line.state is Freshness.FRESH


def test_a_host_that_died_before_the_databases_clock_was_set_back_is_silent(
    fleet: Fleet, store: Store, clock: Clock
) -> None:
    fleet.take([state(0), state(0, host="host-b")])
    clock.now -= 3600.0
    fleet.take([state(1)])
    view = HostsView(store.database, clock)
    assert {one.name: one.state for one in view.all()} == {"host-a": Freshness.FRESH, "host-b": Freshness.STALE}
    assert [one.name for one in view.grown_stale(None)[0]] == ["host-b"]
    assert fleet.sweep() == ("host-b",)
    assert {one.name: one.state for one in view.all()} == {"host-a": Freshness.FRESH, "host-b": Freshness.SILENT}
    clock.now += PERIOD
    fleet.take([state(2), state(2, host="host-b")])
    assert {one.state for one in view.all()} == {Freshness.FRESH}
    assert fleet.sweep() == ()


@pytest.mark.parametrize("off", [-7200.0, 7200.0])
def test_a_host_whose_clock_is_wrong_is_neither_silent_nor_for_ever_there(
    fleet: Fleet, clock: Clock, off: float
) -> None:
    for number in range(5):
        fleet.take([state(number, at=NOW + number * PERIOD + off)])
        assert fleet.sweep() == ()
        clock.now += PERIOD
    clock.now += 3 * PERIOD
    assert fleet.sweep() == ("host-a",)


def test_a_restarted_agent_is_told_and_one_whose_clock_went_back_is_heard_once_the_old_life_is_over(
    fleet: Fleet, store: Store, clock: Clock
) -> None:
    fleet.take([state(5, SECOND)])
    fleet.take([state(0, FIRST)])
    assert newest(store) == (SECOND, 5)
    clock.now += 31.0
    assert fleet.sweep() == ("host-a",)
    fleet.take([state(0, FIRST)])
    assert newest(store) == (FIRST, 0)
    assert kinds(store) == ["appeared", "silent", "restarted", "returned"]


def in_threads(work: list[Callable[[], object]]) -> list[object]:
    found: list[object] = []
    threads = [threading.Thread(target=lambda one=one: found.append(one())) for one in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == len(work), "one of them failed"
    return found


def test_controllers_that_do_the_same_at_once_do_it_once(url: str, clock: Clock) -> None:
    stores = [open_store(url) for _ in range(4)]
    fleets = [fleet_of(one, clock) for one in stores]
    hosts = [f"host-{number}" for number in range(6)]

    def takes(fleet: Fleet, seed: int) -> Callable[[], object]:
        order = random.Random(seed)

        def work() -> object:
            for number in range(8):
                names = order.sample(hosts, len(hosts))
                fleet.take([state(number, host=one) for one in names], [past(number, host=one) for one in names])
            return True

        return work

    in_threads([takes(fleet, seed) for seed, fleet in enumerate(fleets)])
    assert [(one.name, one.sequence) for one in fleets[0].hosts()] == [(one, 7) for one in hosts]
    assert [len(stores[0].history.of(one)) for one in hosts] == [8] * 6
    assert len(pulls(stores[0])) == 48
    clock.now += 8 * PERIOD + 31
    swept = in_threads([one.sweep for one in fleets] * 2)
    assert sorted(name for names in swept for name in names) == hosts  # type: ignore[attr-defined]
    assert sorted(kinds(stores[0])) == ["appeared"] * 6 + ["silent"] * 6
    in_threads([one.tidy for one in fleets])
    for one in stores:
        one.close()


@pytest.mark.parametrize("url", ["postgresql", "mariadb"], indirect=True)
def test_a_batch_that_the_database_refuses_leaves_nothing(fleet: Fleet, store: Store) -> None:
    with pytest.raises(StoreRefused):
        fleet.take([state(1), state(1, host="h" * 300)], [past(1)])
    assert fleet.hosts() == ()
    assert store.reports.newest() is None
    assert store.history.of("host-a") == ()


def test_refused_messages_of_one_sender_are_one_event_in_ten_minutes(fleet: Fleet, store: Store, clock: Clock) -> None:
    clock.now -= clock.now % 600
    for _ in range(5):
        fleet.refused("host-a", "it is no message\0")
        clock.now += 100
    fleet.refused("host-b", "neither")
    clock.now += 100
    fleet.refused("host-a", "again")
    assert [(one.host, one.kind) for one in happened(store)] == [
        ("host-a", HostEventKind.POISON),
        ("host-b", HostEventKind.POISON),
        ("host-a", HostEventKind.POISON),
    ]
    assert fleet.hosts() == ()


def test_the_databases_own_clock_says_unix_seconds(store: Store) -> None:
    import time

    before = time.time()
    store.fleet.take([state(0)])
    assert before - 2 <= store.fleet.hosts()[0].heard <= time.time() + 2
    store.fleet.tidy()
