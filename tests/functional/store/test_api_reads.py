"""What the API reads besides lists, the same on every database."""

from __future__ import annotations

import time
import uuid
from dataclasses import replace

import pytest

from lab.fleet.fill import fill
from memhint.objects.event import Event
from memhint.objects.lever import LeverName
from memhint.objects.promise import PromisedHour
from memhint.objects.reclaim import Reclaim
from memhint.objects.verdict import Answer, Verdict
from memhint.store import Store
from memhint.store.errors import MarkerError
from memhint.store.fleet import HostRecord
from memhint.store.fleet_history import FleetHistory
from memhint.store.log import LEVER, REFUSED, Log, LogEntry, LogFilter
from memhint.store.reclaims import Reclaims
from memhint.store.tables import host_event, promise_hour
from tests.unit import builders
from tests.unit.api.site import FLEET, HOSTS, OWN
from tests.unit.store.plans import plans_of


@pytest.fixture
def filled(store: Store) -> Store:
    fill(store, FLEET, time.time(), past=3600.0)
    return store


def follow(log: Log, which: LogFilter, limit: int) -> list[LogEntry]:
    found: list[LogEntry] = []
    marker = None
    while True:
        page = log.page(which, limit, marker)
        found += page.items
        if page.next is None:
            return found
        assert len(page.items) == limit
        marker = page.next


@pytest.mark.parametrize(
    "which", [LogFilter(), LogFilter(kind=LEVER), LogFilter(kind="appeared"), LogFilter(host=FLEET.name(1))]
)
def test_the_log_is_one_list_in_parts(filled: Store, which: LogFilter) -> None:
    log = Log(filled.database)
    whole = log.page(which, 1000).items
    assert whole
    assert [one.at for one in whole] == sorted((one.at for one in whole), reverse=True)
    for limit in (1, 2, len(whole)):
        assert follow(log, which, limit) == list(whole)


@pytest.mark.parametrize(
    ("which", "index", "further"),
    [
        (LogFilter(), "ix_event_at", False),
        (LogFilter(), "ix_event_at", True),
        (LogFilter(kind="appeared"), "ix_host_event_at", False),
        (LogFilter(domain=str(uuid.UUID(int=7))), "ix_event_subject_at", False),
        (LogFilter(project="nobody"), "ix_event_subject_at", False),
    ],
)
def test_the_log_is_found_by_its_indexes(store: Store, which: LogFilter, index: str, further: bool) -> None:
    now, verdict = time.time(), Verdict(Answer.APPLIED)
    for host in range(3):
        name = f"host-{host}"
        told = tuple(
            Event(now - second, name, str(uuid.UUID(int=second % 300)), LeverName.REPORTING, "on", verdict)
            for second in range(3000)
        )
        store.fleet.take([], [HostRecord(name, (), told, 0)])
    with store.database.write() as connection:
        rows = [{"at": now - second, "host": "host-0", "kind": "appeared", "detail": ""} for second in range(3000)]
        connection.execute(host_event.insert(), rows)
    with store.database.write() as connection:
        for table in ("event", "host_event", "domain"):
            word = "ANALYZE TABLE" if connection.dialect.name in ("mysql", "mariadb") else "ANALYZE"
            connection.exec_driver_sql(f"{word} {table}").close()
    marker = f"{now - 1500.0},0,9" if further else None
    plans = plans_of(store.database, lambda: Log(store.database).page(which, 1, marker))
    assert index in plans, plans


def test_promises_of_the_last_hours_are_found_by_the_key(store: Store) -> None:
    rows = [
        {"host": f"host-{name}", "at": 3600 * number, "promised": 1, "came": 1, "held": 1}
        for name in range(10)
        for number in range(2000)
    ]
    with store.database.write() as connection:
        connection.execute(promise_hour.insert(), rows)
    for name in range(10):
        store.promises.add(f"host-{name}", [PromisedHour(0.0, 1, 1)], 0.0)
    with store.database.write() as connection:
        word = "ANALYZE TABLE" if connection.dialect.name in ("mysql", "mariadb") else "ANALYZE"
        connection.exec_driver_sql(f"{word} promise_hour").close()
    plans = plans_of(store.database, lambda: store.promises.since(1990 * 3600.0))
    words = {
        "sqlite": "(host=? AND at>?)",
        "postgresql": "Index Cond: (((host)::text = ANY",
        "mariadb": "'promise_hour', 'range', 'PRIMARY'",
    }
    assert words[store.database.engine.dialect.name.replace("mysql", "mariadb")] in plans, plans


def test_the_log_of_a_project_has_its_vms_only(filled: Store) -> None:
    own = {one.uuid for one in filled.domains.page(limit=1000).items if one.project == OWN}
    found = Log(filled.database).page(LogFilter(project=OWN, answers=REFUSED), 1000).items
    assert found
    assert {one.domain for one in found} <= own
    assert {one.answer for one in found} <= set(REFUSED)


def test_vms_are_told_by_their_names_while_a_host_has_them(filled: Store) -> None:
    log, moment = Log(filled.database), time.time() + 60
    gone, line = str(uuid.uuid4()), filled.domains.page(limit=1).items[0]
    cursor = log.cursor()
    for subject in (gone, line.uuid):
        filled.events.record("host-a", moment, [builders.lever_state(subject=subject)])
    wanted = {gone: None, line.uuid: line.name}
    assert {one.domain: one.domain_name for one in log.page(LogFilter(since=moment), 10).items} == wanted
    assert {one.domain: one.domain_name for one in log.after(cursor, 10)[0]} == wanted
    assert all(one.domain_name is None for one in log.page(LogFilter(), 1000).items if one.domain is None)


def test_what_comes_after_a_place_is_told_once(filled: Store) -> None:
    log = Log(filled.database)
    cursor = log.cursor()
    assert log.after(cursor, 10) == ((), cursor)
    moment = time.time()
    filled.events.record("host-a", moment, [builders.lever_state(subject=str(uuid.uuid4())) for _ in range(3)])
    first, cursor = log.after(cursor, 2)
    second, cursor = log.after(cursor, 2)
    assert (len(first), len(second)) == (2, 1)
    assert log.after(cursor, 2) == ((), cursor)


@pytest.mark.parametrize("marker", ["", "1", "1,2,3", "nan,0,1", "1,0,99999999999999999999", "1,0,x", "-1,0,0"])
def test_a_marker_of_no_list_is_refused(store: Store, marker: str) -> None:
    with pytest.raises(MarkerError):
        Log(store.database).page(LogFilter(), 10, marker)


def test_the_fleets_history_is_the_sum_of_each_hosts_worst(filled: Store) -> None:
    each = [filled.history.of(FLEET.name(number)) for number in range(HOSTS)]
    for step in (300, 7200):
        found = FleetHistory(filled.database).of(0.0, None, step)
        assert found
        for point in found:
            # Databases round a moment to a second each in their own way: what lies at an edge may lie beyond it.
            inside = [[one for one in points if point.at <= one.at < point.at + step] for points in each]
            if any(abs(one.at - edge) < 1 for points in each for one in points for edge in (point.at, point.at + step)):
                continue
            assert point.headroom == sum(min(one.headroom for one in points) for points in inside if points)
            assert point.footprint == sum(max(one.footprint for one in points) for points in inside if points)
            assert point.span == step
    middle = found[-1].at
    assert FleetHistory(filled.database).of(0.0, middle, 7200) == tuple(one for one in found if one.at < middle)


def test_requests_are_those_to_a_projects_vms(filled: Store) -> None:
    lines = filled.domains.page(limit=1000).items
    for number, one in enumerate(lines):
        request = builders.reclaim_request(id=f"r-{number}", uuid=one.uuid, at=builders.NOW + number)
        filled.reclaims.add(Reclaim(replace(request, expires=request.at + 60)), one.host)
    of_all_hosts = Reclaims(filled.database, "", 1e9)
    found = of_all_hosts.page(limit=1000, project=OWN).items
    assert {one.reclaim.request.uuid for one in found} == {one.uuid for one in lines if one.project == OWN}
    late = of_all_hosts.page(limit=1000, since=builders.NOW + len(lines) - 2).items
    assert [one.reclaim.request.id for one in late] == [f"r-{len(lines) - 1}", f"r-{len(lines) - 2}"]
