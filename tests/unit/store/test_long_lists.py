"""No list is so long that the database does not take it: SQLite is told to take a thousand values in a statement."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import event

from memhint.objects.event import Event
from memhint.objects.history import point_of
from memhint.objects.instance import Instance
from memhint.objects.reclaim import Reclaim, ReclaimState
from memhint.store import Store, open_store
from memhint.store.fleet import HostRecord
from memhint.store.log import Log, LogFilter
from memhint.store.parts import AT_ONCE, parts
from tests.unit import builders
from tests.unit.builders import NOW

MANY = 2500


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = open_store(f"sqlite:///{tmp_path}/memhint.db")

    @event.listens_for(opened.database.engine, "connect")
    def limit(connection, _record) -> None:
        connection.setlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER, 1000)

    opened.database.engine.dispose()
    yield opened
    opened.close()


def test_parts_are_all_there_in_their_order() -> None:
    assert list(parts([])) == []
    found = list(parts(range(2 * AT_ONCE + 1)))
    assert [len(one) for one in found] == [AT_ONCE, AT_ONCE, 1]
    assert [one for part in found for one in part] == list(range(2 * AT_ONCE + 1))


def test_requests_of_a_batch(store: Store) -> None:
    queued = [Reclaim(builders.reclaim_request(id=f"req-{number:05d}")) for number in range(MANY)]
    told = tuple(replace(one, state=ReclaimState.DONE) for one in queued)
    store.fleet.take([], [HostRecord("host-a", (), (), 0, told)])
    store.fleet.take([], [HostRecord("host-b", (), (), 0, told)])
    assert [one.host for one in store.reclaims.page(limit=2 * MANY).items] == ["host-a"] * MANY


def test_hosts_that_are_in_a_batch_fall_silent_and_are_forgotten(store: Store) -> None:
    names = [f"host-{number:04d}" for number in range(MANY)]
    store.fleet.take([], [HostRecord(name, (), (), 0) for name in names])
    with store.database.write() as connection:
        connection.exec_driver_sql("UPDATE host SET epoch = 'e', period = 1, heard = 0")
    assert store.fleet.sweep() == tuple(names)
    with store.database.write() as connection:  # a history that tells that time has passed
        now = connection.exec_driver_sql("SELECT (julianday('now') - 2440587.5) * 86400").scalar_one()
        points = [("host-0000", point_of(builders.report(at=now - ago))) for ago in (86400.0, 0.3 * 86400.0)]
        store.history.add(connection, points)
    assert store.fleet.forget(60.0) == tuple(names)
    assert store.fleet.hosts() == ()


def test_wishes_for_the_vms_of_a_batch(store: Store) -> None:
    with store.database.write() as connection:
        for number in range(MANY):
            connection.exec_driver_sql(
                "INSERT INTO central_policy (domain_uuid, version, seen) VALUES (?, 1, 0)", (f"vm-{number:04d}",)
            )
            connection.exec_driver_sql(
                "INSERT INTO domain (uuid, host, revision, fingerprint, name, state, qos, assigned, source)"
                " VALUES (?, ?, 1, 1, 'n', 'running', 'none', 1, 'none')",
                (f"vm-{number:04d}", f"host-{number:04d}"),
            )
    found = store.central_policies.on([f"host-{number:04d}" for number in range(MANY)])
    assert len(found) == MANY


def test_servers_that_nova_has_and_has_no_more(store: Store) -> None:
    found = [Instance(f"vm-{number:04d}", "blue", "host-a") for number in range(MANY)]
    look = store.instances.begin()
    assert look is not None
    assert store.instances.keep(look, found)
    assert store.instances.keep(look, [replace(one, gone=True) for one in found])
    assert store.instances.of("vm-0000") is None
    assert store.instances.keep(look, found)
    store.instances.end(look, whole=True, pause=0.0)
    look = store.instances.begin()
    assert look is not None
    store.instances.end(look, whole=True, pause=0.0)
    assert store.instances.of("vm-2499") is None


def test_names_of_the_vms_in_the_log(store: Store) -> None:
    made = builders.lever_state()
    events = tuple(
        Event(NOW + number, "host-a", f"vm-{number:04d}", made.lever, "on", made.verdict) for number in range(MANY)
    )
    store.fleet.take([], [HostRecord("host-a", (), events, 0)])
    assert len(Log(store.database).page(LogFilter(), MANY).items) == MANY
