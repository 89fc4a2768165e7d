"""The growth table in the store: whose turn it is, what is looked at, and what is kept."""

from __future__ import annotations

from dataclasses import replace

import pytest
from sqlalchemy import Connection, literal, select, update

from memhint.objects.plan import DemandReason
from memhint.objects.units import GIB, MIB
from memhint.planner.growth import AGES, DAY, LEVELS, table_of
from memhint.store import Store, StoreDamaged
from memhint.store.fleet import State
from memhint.store.growth import AGAIN, VMS, Growth
from memhint.store.tables import domain, domain_history, growth, growth_host
from tests.unit import builders
from tests.unit.builders import DB, OLD, WEB

BEGIN = 1_700_000_000.0
EVERY = 6 * 3600.0


class Clock:
    def __init__(self) -> None:
        self.now = BEGIN

    def __call__(self, _connection: Connection) -> float:
        return self.now


def report(store: Store, host: str, overhead: int = 0, excluded: tuple[str, ...] = ()) -> None:
    """A host's report; VMs that are not ``excluded`` have a forecast."""
    made = builders.report(host=host, epoch="000000000000001-00000000", sequence=1, slot_overhead=overhead)
    demands = []
    for one in made.domains:
        uuid = one.observation.uuid
        reason = DemandReason.EXCLUDED if uuid in excluded else DemandReason.FORECAST
        demands.append(builders.demand(uuid=uuid, reason=reason))
    store.fleet.take([State(replace(made, plan=replace(made.plan, demands=tuple(demands))), 1.0)])


def test_a_clock_that_was_years_ahead_keeps_nobody_from_a_turn(store: Store) -> None:
    clock = Clock()
    turns = Growth(store.database, 30 * DAY, clock)
    report(store, "host-a")
    clock.now += 3650 * DAY
    wrong = turns.begin(10.0, EVERY)
    assert wrong is not None
    turns.save(table_of(wrong.version, []))
    clock.now = BEGIN
    found = turns.begin(10.0, EVERY)
    assert found is not None
    assert (found.host, found.due, found.version) == ("host-a", True, wrong.version + 1)
    assert turns.begin(10.0, EVERY) is None


def test_hosts_have_their_turns_and_none_has_two_of_a_day(store: Store) -> None:
    clock = Clock()
    turns = Growth(store.database, 30 * DAY, clock)
    assert turns.begin(10.0, EVERY) is None  # there is no host
    for host in ("host-a", "host-b"):
        report(store, host)
    clock.now += 10
    first = turns.begin(10.0, EVERY)
    assert first is not None
    assert (first.host, first.version, first.due) == ("host-a", int(clock.now), True)
    assert turns.begin(10.0, EVERY) is None  # it is another one's turn
    clock.now += 10
    second = turns.begin(10.0, EVERY)
    assert second is not None
    assert second.host == "host-b"
    clock.now += 10
    assert turns.begin(10.0, EVERY) is None  # all were looked at
    clock.now = BEGIN + AGAIN + 11
    again = turns.begin(10.0, EVERY)
    assert again is not None
    assert again.host == "host-a"


def test_a_version_is_never_one_that_was(store: Store) -> None:
    clock = Clock()
    turns = Growth(store.database, 30 * DAY, clock)
    report(store, "host-a")
    turns.save(table_of(2**40, []))
    clock.now += EVERY
    turn = turns.begin(1.0, EVERY)
    assert turn is not None
    assert (turn.version, turn.due) == (2**40 + 1, True)
    turns.save(None)
    clock.now += AGAIN + 1
    store.database.transact(lambda connection: connection.execute(update(growth).values(made=clock.now - EVERY + 1)))
    turn = turns.begin(1.0, EVERY)
    assert turn is not None
    assert not turn.due


def test_the_worst_of_each_hour_of_those_that_have_a_forecast_is_looked_at(store: Store) -> None:
    report(store, "host-a", 128 * MIB, excluded=(DB, OLD))
    assert set(store.growth.points("host-a")) == {WEB}
    with store.database.write() as connection:
        connection.execute(domain_history.delete())
        rows = []
        for at, span, use in ((0, 3600, 3), (3600, 0, 1), (3660, 0, 2), (3720, 0, None), (7200, 300, 9)):
            bucket = at // 3600 * 3600
            rows.append({"uuid": WEB, "span": span, "at": at, "bucket": bucket, "assigned": 4 * GIB})
            rows[-1] |= {"footprint": None if use is None else use * GIB}
        connection.execute(domain_history.insert(), rows)
    most = 4 * GIB + 128 * MIB
    points = [(0.0, 3 * GIB, most), (3600.0, 2 * GIB, most), (7200.0, 9 * GIB, 9 * GIB)]
    assert store.growth.points("host-a") == {WEB: points}
    # Of a VM that two hosts say they have nobody knows whose it is.
    report(store, "host-b")
    assert store.growth.points("host-a") == store.growth.points("host-b") == {}
    assert store.growth.points("nobody") == {}


def test_what_another_host_has_said_of_a_vm_makes_its_memory_no_larger(store: Store) -> None:
    report(store, "host-a", 128 * MIB, excluded=(DB, OLD))
    report(store, "host-b", 128 * MIB, excluded=(DB, OLD))
    assert store.growth.points("host-a") == {}
    with store.database.write() as connection:
        connection.execute(domain_history.delete())
        rows = []
        # The second is of host-b; in the third hour the VM had not been made larger yet.
        for at, memory in ((0, 4 * GIB), (60, 2**47), (3600, 2 * GIB)):
            rows.append({"uuid": WEB, "span": 0, "at": at, "bucket": at, "assigned": memory, "footprint": GIB})
        connection.execute(domain_history.insert(), rows)
        connection.execute(domain.delete().where(domain.c.host == "host-b"))  # it says no more that it has the VM
    points = [(0.0, GIB, 4 * GIB + 128 * MIB), (3600.0, GIB, 2 * GIB + 128 * MIB)]
    assert store.growth.points("host-a") == {WEB: points}


def test_of_a_host_with_many_vms_some_are_looked_at(store: Store) -> None:
    report(store, "host-a")
    with store.database.write() as connection:
        columns = [one for one in domain.c if one.name not in ("uuid", "demand_reason")]
        for number in range(VMS + 20):
            made = select(literal(f"vm-{number}"), *columns, literal("forecast")).where(domain.c.uuid == WEB)
            connection.execute(domain.insert().from_select(["uuid", *columns, "demand_reason"], made))
    assert len(store.growth.points("host-a")) == VMS


def test_a_tally_takes_the_place_of_the_one_before_and_goes_with_its_host(store: Store) -> None:
    for host in ("host-a", "host-b"):
        report(store, host)
        turn = store.growth.begin(0.0, EVERY)
        assert turn is not None
        store.growth.keep_tally(turn.host, {(0, 1): (5, 200)})
    store.growth.keep_tally("host-a", {(2, 3): (1, 100), (9, 23): (2, 200)})
    assert sorted(map(sorted, store.growth.tallies())) == [[(0, 1)], [(2, 3), (9, 23)]]
    with store.database.write() as connection:
        connection.execute(update(growth_host).where(growth_host.c.host == "host-b").values(host="forgotten"))
    assert store.growth.tallies() == [{(2, 3): (1, 100), (9, 23): (2, 200)}]
    # Of a memhint with more cells nothing is taken that is none here.
    with store.database.write() as connection:
        connection.execute(
            update(growth_host).values(document=f"[[{len(AGES)},0,1,1],[0,{len(LEVELS)},1,1],[0,0,1,101]]")
        )
    assert store.growth.tallies() == [{}]


def test_the_table_that_was_saved_last_holds_and_a_damaged_one_is_told(store: Store) -> None:
    assert store.growth.newest() is None
    one = table_of(7, [{(1, 1): (5, 200)}] * 4)
    store.growth.save(one)
    assert store.growth.newest() == one
    store.growth.save(None)
    assert store.growth.newest() == one
    for damage in ("{", one_document(store).replace('"percent":40', '"percent":101')):
        with store.database.write() as connection:
            connection.execute(update(growth).values(document=damage))
        with pytest.raises(StoreDamaged):
            store.growth.newest()
    store.growth.save(table_of(8, []))
    newest = store.growth.newest()
    assert newest is not None
    assert newest.version == 8


def one_document(store: Store) -> str:
    with store.database.read() as connection:
        return str(connection.execute(select(growth.c.document)).scalar_one())
