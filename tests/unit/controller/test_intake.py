from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from sqlalchemy import event

from memhint.bus.envelope import Envelope, MessageKind
from memhint.bus.rabbit_consumer import HandlerUnavailable
from memhint.bus.record import Record
from memhint.controller.intake import Intake
from memhint.controller.listening import Listening
from memhint.controller.tidying import Tidier
from memhint.objects.reclaim import Reclaim
from memhint.objects.report import Report
from memhint.store import open_store
from memhint.store.errors import StoreDamaged, StoreError, StoreFailed, StoreRefused
from memhint.store.fleet import HostEventKind, HostRecord, State
from memhint.store.rows.points import TIDY_EVERY
from tests.clock import Clock
from tests.told import happened
from tests.unit import builders


class FakeFleet:
    def __init__(self) -> None:
        self.taken: list[tuple[list[int], list[str]]] = []
        self.done: list[str] = []
        self.looks: list[Sequence[Report]] = []
        self.bad = -1
        self.error: Exception | None = None
        self.fails: dict[int, list[Exception]] = {}  # by sequence, one after the other
        self.unwell: Exception | None = None
        self.listened: list[float | None] = []

    def rehearse(self) -> None:
        self.done.append("rehearse")
        if self.unwell is not None:
            raise self.unwell

    def take(self, states: Sequence[State], records: Sequence[HostRecord] = ()) -> tuple[Report, ...]:
        if self.error is not None:
            raise self.error
        if self.bad in [one.report.sequence for one in states]:
            raise StoreRefused("it does not fit")
        for one in states:
            if left := self.fails.get(one.report.sequence):
                raise left.pop(0)
        self.taken.append(([one.report.sequence for one in states], [one.host for one in records]))
        return tuple(one.report for one in states)

    def refused(self, user: str, why: str) -> None:
        if self.error is not None:
            raise self.error
        self.done.append(f"refused {user}")

    def sweep(self, listened: float | None, refused: Callable[[str, StoreError], None]) -> tuple[str, ...]:
        self.done.append("sweep")
        self.listened.append(listened)
        if self.error is not None:
            raise self.error
        return ("host-a",)

    def tidy(self) -> None:
        self.done.append("tidy")

    def forget(self, keep: float) -> tuple[str, ...]:
        self.done.append(f"forget {keep:g}")
        return ()


class FakePolicies:
    def __init__(self, fleet: FakeFleet) -> None:
        self._fleet = fleet

    def prune(self, keep: float) -> int:
        self._fleet.done.append(f"prune {keep:g}")
        return 0


def state(sequence: int) -> Envelope:
    return Envelope(MessageKind.STATE, "host-a", "epoch-1", sequence, 1.0, builders.report(sequence=sequence))


RECORD = Envelope(MessageKind.RECORD, "host-a", "epoch-1", 1, 1.0, Record((), (), 0))


def intake(fleet: FakeFleet, clock: list[float]) -> Intake:
    store = SimpleNamespace(fleet=fleet, central_policies=FakePolicies(fleet))
    return Intake(store, 5.0, fleet.looks.append, lambda: clock[0])  # type: ignore[arg-type]


def test_a_batch_goes_into_one_transaction() -> None:
    fleet = FakeFleet()
    assert intake(fleet, [0.0]).take([state(1), RECORD, state(2)]) == [None, None, None]
    assert fleet.taken == [([1, 2], ["host-a"])]
    assert [[one.sequence for one in look] for look in fleet.looks] == [[1, 2]]


def test_one_message_that_the_store_refuses_keeps_none_of_the_others() -> None:
    fleet = FakeFleet()
    fleet.bad = 2
    assert intake(fleet, [0.0]).take([state(1), state(2), RECORD]) == [None, "it does not fit", None]
    assert fleet.taken == [([1], []), ([], ["host-a"])]


def test_a_store_that_is_away_refuses_nobody() -> None:
    fleet = FakeFleet()
    fleet.error = StoreError("it is away")
    with pytest.raises(HandlerUnavailable, match="it is away"):
        intake(fleet, [0.0]).take([state(1)])
    intake(fleet, [0.0]).poison("host-a", "no message")


def test_hosts_are_swept_when_it_is_time_and_messages_wait_for_no_tidying() -> None:
    fleet, clock = FakeFleet(), [0.0]
    one = intake(fleet, clock)
    for clock[0] in (4.9, 5.0, 9.0, 10.0):
        one.tick()
    assert fleet.done == ["sweep", "sweep"]
    clock[0] = TIDY_EVERY
    one.tick()
    assert fleet.done == ["sweep", "sweep", "sweep"]


def test_a_round_of_tidying_drops_what_is_old_and_what_was_not_heard_of_for_long() -> None:
    fleet = FakeFleet()
    store = SimpleNamespace(fleet=fleet, central_policies=FakePolicies(fleet))
    Tidier(store, 3600.0).round()  # type: ignore[arg-type]
    assert fleet.done == ["forget 3600", "prune 3600", "tidy"]


def test_a_sweep_that_fails_is_tried_again() -> None:
    fleet, clock = FakeFleet(), [0.0]
    one = intake(fleet, clock)
    fleet.error = StoreError("it is away")
    clock[0] = 6.0
    one.tick()
    fleet.error = None
    clock[0] = 12.0
    one.tick()
    assert fleet.done == ["sweep", "sweep"]


def test_sweeps_are_counted_with_whom_they_silenced_and_how_often_they_failed() -> None:
    fleet, clock = FakeFleet(), [0.0]
    handler = intake(fleet, clock)
    clock[0] = 5.0
    handler.tick()
    assert handler.counts == {"sweeps": 1, "silenced": 1}
    fleet.error = StoreError("away")
    clock[0] = 10.0
    handler.tick()
    assert handler.counts == {"sweeps": 2, "silenced": 1, "failed": 1}


def test_whether_messages_could_be_kept_is_whether_the_store_takes_the_like_of_them() -> None:
    fleet, clock = FakeFleet(), [0.0]
    handler = intake(fleet, clock)
    handler.ready()
    assert fleet.done == ["rehearse"]
    assert handler.counts == {}
    fleet.unwell = StoreError("it is away")
    with pytest.raises(HandlerUnavailable, match="it is away"):
        handler.ready()
    for fleet.unwell in (StoreDamaged("one row of it is none"), ZeroDivisionError("a defect")):
        handler.ready()


def away_by_taking(fleet: FakeFleet, handler: Intake) -> None:
    fleet.error = StoreError("away")
    with pytest.raises(HandlerUnavailable):
        handler.take([state(1)])


def away_by_asking(fleet: FakeFleet, handler: Intake) -> None:
    fleet.unwell = StoreError("away")
    with pytest.raises(HandlerUnavailable):
        handler.ready()


def away_by_sweeping(fleet: FakeFleet, handler: Intake) -> None:
    fleet.error = StoreError("away")
    handler.tick()


@pytest.mark.parametrize("away", [away_by_taking, away_by_asking, away_by_sweeping])
def test_silence_counts_from_when_the_store_was_last_away(away: Callable[[FakeFleet, Intake], None]) -> None:
    fleet, clock = FakeFleet(), [0.0]
    handler = intake(fleet, clock)
    clock[0] = 5.0
    handler.tick()
    clock[0] = 100.0
    away(fleet, handler)
    fleet.error = fleet.unwell = None
    for clock[0] in (107.0, 112.0):
        handler.tick()
    assert fleet.listened[-2:] == [7.0, 12.0]
    assert fleet.listened[0] is None


def test_what_a_spool_lost_is_told_of_each_spool(tmp_path: Path) -> None:
    store = open_store(f"sqlite:///{tmp_path}/memhint.db")
    handler, epoch = Intake(store, 5.0), "001700000000000-0000000a"
    handler.take([Envelope(MessageKind.STATE, "host-a", epoch, 7, 1.0, builders.report(epoch=epoch))])
    handler.take(
        [
            Envelope(MessageKind.RECORD, "host-a", epoch, 7, 1.0, Record((), (), lost, spool=spool))
            for spool, lost in (("one", 5), ("two", 3))
        ]
    )
    told = [one.detail for one in happened(store) if one.kind == HostEventKind.LOST]
    assert told == ["8 points and events"]
    store.close()


def test_others_learn_when_the_store_was_away() -> None:
    fleet, clock = FakeFleet(), Clock()
    listening = Listening(clock)
    handler = Intake(SimpleNamespace(fleet=fleet), 5.0, clock=clock, listening=listening)  # type: ignore[arg-type]
    clock.now = 50.0
    assert (listening.since_outage(), listening.seconds()) == (None, 50.0)
    away_by_asking(fleet, handler)
    clock.now = 57.0
    assert (listening.since_outage(), listening.seconds()) == (7.0, 7.0)


def test_an_outage_of_the_store_makes_no_host_silent_that_reports(tmp_path: Path) -> None:
    store, clock = open_store(f"sqlite:///{tmp_path}/memhint.db"), Clock(builders.NOW)
    store.fleet._clock = clock
    handler = Intake(store, 5.0, clock=clock)

    def told(host: str, sequence: int) -> Envelope:
        made = builders.report(host=host, epoch="001700000000000-0000000a", sequence=sequence, period=10.0)
        return Envelope(MessageKind.STATE, host, made.epoch, sequence, 10.0 * sequence, made, came=clock.now)

    handler.take([told("host-a", 0), told("host-b", 0)])
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(store.database, "transact", lambda _: (_ for _ in ()).throw(StoreError("away")))
        clock.now += 100.0
        held = told("host-a", 10)
        with pytest.raises(HandlerUnavailable):
            handler.take([held])
        clock.now += 5.0
        handler.tick()
    clock.now += 5.0
    handler.tick()  # before what is held was tried again
    handler.take([held])
    for sequence in (11, 12, 13):
        handler.take([told("host-a", sequence)])
        clock.now += 10.0
        handler.tick()
    assert [(one.name, one.silent) for one in store.fleet.hosts()] == [("host-a", False), ("host-b", True)]
    assert handler.counts["silenced"] == 1
    store.close()


@pytest.mark.parametrize("error", [StoreRefused("no"), StoreDamaged("no"), StoreFailed("no"), ZeroDivisionError("no")])
def test_a_sweep_that_the_store_refuses_is_no_outage(error: Exception) -> None:
    fleet, clock = FakeFleet(), [0.0]
    handler = intake(fleet, clock)
    for clock[0], fleet.error in ((5.0, error), (10.0, error), (15.0, None)):
        handler.tick()
    assert fleet.listened == [None, None, None]
    assert handler.counts == {"sweeps": 3, "silenced": 1, "failed": 2}


def test_what_the_store_refuses_of_one_in_a_sweep_holds_up_no_other(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store, clock = open_store(f"sqlite:///{tmp_path}/memhint.db"), Clock(builders.NOW)
    store.fleet._clock = clock
    handler = Intake(store, 5.0, clock=clock)
    for host in ("host-a", "host-b", "host-c"):
        made = builders.report(host=host, epoch="001700000000000-0000000a", period=10.0)
        handler.take([Envelope(MessageKind.STATE, host, made.epoch, made.sequence, 1.0, made)])
        store.reclaims.add(Reclaim(builders.reclaim_request(id=f"of {host}")), host)
    with store.database.write() as connection:
        for table, name in (("host", "host-b"), ("reclaim", "of host-b")):
            column = "name" if table == "host" else "id"
            connection.exec_driver_sql(
                f"CREATE TRIGGER {table}_refuses BEFORE UPDATE ON {table} WHEN NEW.{column} = '{name}'"
                f" BEGIN SELECT RAISE(ABORT, 'no'); END"
            )
    for _ in range(2):
        clock.now += 3600.0
        handler.tick()
    assert [(one.name, one.silent) for one in store.fleet.hosts()] == [
        ("host-a", True),
        ("host-b", False),
        ("host-c", True),
    ]
    assert {one.host: one.reclaim.state.ended for one in store.reclaims.page().items} == {
        "host-a": True,
        "host-b": False,
        "host-c": True,
    }
    assert handler.counts == {"sweeps": 2, "silenced": 2, "spoiled": 4}
    assert "host-b stays as it is" in caplog.text
    store.close()


FAILED = StoreFailed("number of parameters must be between 0 and 65535")


def test_one_message_at_which_the_store_fails_keeps_none_of_the_others() -> None:
    fleet = FakeFleet()
    fleet.fails = {2: [FAILED] * 3}
    answers = intake(fleet, [0.0]).take([state(1), state(2), RECORD])
    assert answers == [None, f"keeping it fails: {FAILED}", None]
    assert fleet.taken == [([1], []), ([], ["host-a"])]


def test_a_store_that_fails_at_anything_refuses_nobody() -> None:
    fleet = FakeFleet()
    fleet.fails, fleet.unwell = {1: [FAILED] * 9}, StoreError("the disk is full")
    with pytest.raises(HandlerUnavailable, match="the disk is full"):
        intake(fleet, [0.0]).take([state(1), state(2)])
    assert fleet.taken == []
    fleet.unwell = StoreFailed("everything fails")
    with pytest.raises(HandlerUnavailable, match="everything fails"):
        intake(fleet, [0.0]).take([state(1)])


@pytest.mark.parametrize("after", [StoreError("deadlock detected"), StoreError("it is away")])
def test_a_store_that_is_away_while_a_message_is_tried_by_itself_refuses_nobody(after: StoreError) -> None:
    fleet = FakeFleet()
    fleet.fails = {1: [FAILED, FAILED, after]}
    with pytest.raises(HandlerUnavailable, match=str(after)):
        intake(fleet, [0.0]).take([state(1)])


def test_a_store_that_is_away_between_two_tries_of_a_message_refuses_nobody() -> None:
    fleet = FakeFleet()
    fleet.fails = {1: [FAILED] * 2}
    answers = iter([None, StoreError("it is away")])

    def rehearse() -> None:
        if (error := next(answers)) is not None:
            raise error

    fleet.rehearse = rehearse  # type: ignore[method-assign]
    with pytest.raises(HandlerUnavailable, match="it is away"):
        intake(fleet, [0.0]).take([state(1)])


def test_a_message_is_refused_by_no_first_failure() -> None:
    fleet = FakeFleet()
    fleet.fails = {1: [FAILED, FAILED]}
    assert intake(fleet, [0.0]).take([state(1)]) == [None]
    assert fleet.taken == [([1], [])]


def test_a_rehearsal_leaves_nothing_and_finds_what_a_store_does_not_take(tmp_path: Path) -> None:
    store = open_store(f"sqlite:///{tmp_path}/memhint.db")
    store.fleet.rehearse()
    with store.database.write() as connection:
        for table in ("host", "report", "host_history", "event", "reclaim", "host_event"):
            assert connection.exec_driver_sql(f"SELECT COUNT(*) FROM {table}").scalar() == 0, table
        connection.exec_driver_sql("DROP TABLE event")
    with pytest.raises(StoreError, match="no such table"):
        store.fleet.rehearse()
    store.close()


def test_hosts_whose_messages_no_statement_can_hold_keep_no_other_host_waiting(tmp_path: Path) -> None:
    store = open_store(f"sqlite:///{tmp_path}/memhint.db")
    handler = Intake(store, 5.0)

    @event.listens_for(store.database.engine, "do_execute")
    @event.listens_for(store.database.engine, "do_executemany")
    def fail(_cursor, _statement, parameters, _context) -> None:
        if "evil" in str(parameters):
            error = sqlite3.OperationalError("too many SQL variables")
            error.sqlite_errorcode = sqlite3.SQLITE_ERROR  # type: ignore[attr-defined]
            raise error

    epoch = "001700000000000-0000000a"
    good = replace(state(1), body=builders.report(host="host-a", epoch=epoch))
    evil = replace(state(2), body=builders.report(host="evil", epoch=epoch))
    answers = handler.take([evil, good, evil])
    assert [one is None for one in answers] == [False, True, False]
    assert [one.name for one in store.fleet.hosts()] == ["host-a"]
    store.close()
