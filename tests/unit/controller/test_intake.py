from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace

import pytest

from memhint.bus.envelope import Envelope, MessageKind
from memhint.bus.rabbit_consumer import HandlerUnavailable
from memhint.bus.record import Record
from memhint.controller.intake import Intake
from memhint.objects.report import Report
from memhint.store.errors import StoreDamaged, StoreError, StoreRefused
from memhint.store.fleet import HostRecord, State
from memhint.store.rows.points import TIDY_EVERY
from tests.unit import builders


class FakeFleet:
    def __init__(self) -> None:
        self.taken: list[tuple[list[int], list[str]]] = []
        self.done: list[str] = []
        self.looks: list[Sequence[Report]] = []
        self.bad = -1
        self.error: Exception | None = None

    def take(self, states: Sequence[State], records: Sequence[HostRecord] = ()) -> tuple[Report, ...]:
        if self.error is not None:
            raise self.error
        if self.bad in [one.report.sequence for one in states]:
            raise StoreRefused("it does not fit")
        self.taken.append(([one.report.sequence for one in states], [one.host for one in records]))
        return tuple(one.report for one in states)

    def refused(self, user: str, why: str) -> None:
        if self.error is not None:
            raise self.error
        self.done.append(f"refused {user}")

    def sweep(self) -> tuple[str, ...]:
        self.done.append("sweep")
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
    return Intake(store, 5.0, 3600.0, fleet.looks.append, lambda: clock[0])  # type: ignore[arg-type]


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


def test_hosts_are_swept_and_old_things_tidied_when_it_is_time() -> None:
    fleet, clock = FakeFleet(), [0.0]
    one = intake(fleet, clock)
    for clock[0] in (4.9, 5.0, 9.0, 10.0):
        one.tick()
    assert fleet.done == ["sweep", "sweep"]
    clock[0] = TIDY_EVERY
    one.tick()
    assert fleet.done == ["sweep", "sweep", "sweep", "tidy", "forget 3600", "prune 3600"]


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


def test_whether_messages_could_be_kept_is_whether_the_store_takes_a_look() -> None:
    fleet, clock = FakeFleet(), [0.0]
    handler = intake(fleet, clock)
    handler.ready()
    assert fleet.done == ["sweep"]
    assert handler.counts["silenced"] == 1
    fleet.error = StoreError("it is away")
    with pytest.raises(HandlerUnavailable, match="it is away"):
        handler.ready()
    for fleet.error in (StoreDamaged("one row of it is none"), ZeroDivisionError("a defect")):
        handler.ready()
