"""What one host's records make in the fleet's store has an end, however many it sends and whatever it says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import event as happens
from sqlalchemy import func, insert, select, update

from memhint.objects.event import Event
from memhint.objects.history import HistoryPoint, point_of
from memhint.objects.reclaim import Reclaim, ReclaimState
from memhint.store import Store, fleet_history, open_store
from memhint.store.clock import AHEAD
from memhint.store.fleet import Fleet, HostEventKind, HostRecord, State
from memhint.store.fleet_history import FleetHistory
from memhint.store.history import History
from memhint.store.parts import AT_ONCE
from memhint.store.reclaims import MOST_OPEN
from memhint.store.rows.points import KEEP, host_point
from memhint.store.rows.reclaims import OPEN, reclaim_row
from memhint.store.summaries import Summaries
from memhint.store.tables import domain_history, event, host_history, reclaim
from tests.told import happened
from tests.unit import builders
from tests.unit.builders import NOW
from tests.unit.store.plans import plans_of

EPOCH = "000000000000001-00000000"
CENTURY = 100 * 365 * 86400.0


class Site:
    """A controller's store by the test's clock."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.now = NOW
        history = History(store.database, KEEP, lambda _: self.now)
        summaries = Summaries(store.domain_history)
        self.history = history
        self.fleet = Fleet(store.database, history, store.events, summaries, store.reclaims, 3600.0, lambda _: self.now)

    def hear(self, *told: Reclaim, host: str = "host-a") -> None:
        self.fleet.take([], [HostRecord(host, (), (), 0, told)])

    def count(self, table) -> int:
        with self.store.database.read() as connection:
            return int(connection.execute(select(func.count()).select_from(table)).scalar_one())

    def notes(self) -> list[str]:
        return [one.detail for one in happened(self.store) if one.kind == HostEventKind.POISON]


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    opened = open_store(f"sqlite:///{tmp_path}/memhint.db")
    yield Site(opened)
    opened.close()


def asked(number: int, at: float = NOW, **changes) -> Reclaim:
    return Reclaim(builders.reclaim_request(id=f"req-{number:05d}", at=at, expires=at + 60.0), **changes)


def record(at: float) -> HostRecord:
    made = builders.lever_state()
    point = point_of(builders.report(at=at))
    told = (asked(int(at) % 10_000, at),)
    return HostRecord("host-a", (point,), (Event(at, "host-a", "vm-1", made.lever, "on", made.verdict),), 0, told)


def test_what_is_of_a_moment_far_ahead_is_left_out_and_noted_once(site: Site) -> None:
    for number in range(3):
        site.fleet.take([], [record(NOW + CENTURY + number), replace(record(NOW + number), host="host-b")])
    assert [site.count(table) for table in (host_history, event, reclaim)] == [3, 3, 3]
    assert site.notes() == [
        "3 points, events or requests are left out, more than a day ahead: see its clock, and the database's"
    ]
    site.now += 601
    site.fleet.take([], [record(NOW + CENTURY)])
    assert len(site.notes()) == 2


def test_a_clock_that_is_some_hours_ahead_loses_nothing(site: Site) -> None:
    site.fleet.take([], [record(NOW + AHEAD)])
    assert [site.count(table) for table in (host_history, event, reclaim)] == [1, 1, 1]
    assert site.notes() == []


def test_reports_of_moments_far_ahead_make_no_history_of_vms(site: Site) -> None:
    epoch = "001700000000000-0000000a"
    for number in range(3):
        made = builders.report(epoch=epoch, sequence=number, at=NOW + CENTURY + number * 3600.0)
        site.fleet.take([State(made, number * 10.0)])
        site.now += 10.0
    assert site.count(domain_history) == 0
    assert len(site.fleet.hosts()) == 1, "and are taken else"


def test_a_host_has_so_many_open_requests_and_no_more(site: Site) -> None:
    site.store.reclaims.add(Reclaim(builders.reclaim_request(id="of-an-operator")), "host-a")
    half = MOST_OPEN // 2
    site.hear(*(asked(number, NOW - number) for number in range(half)))
    site.hear(*(asked(number, NOW - number) for number in range(half, MOST_OPEN + 9)))
    site.hear(asked(90_000), host="host-b")
    assert site.count(reclaim) == MOST_OPEN + 1
    assert site.notes() == ["10 requests are left out: 1000 have not ended"]
    assert site.store.reclaims.get(f"req-{MOST_OPEN + 8:05d}") is not None, "the newest are left out"
    assert site.store.reclaims.get(f"req-{half:05d}") is None


def test_a_host_with_too_many_requests_still_tells_how_they_go_on_and_end(site: Site) -> None:
    site.hear(*map(asked, range(MOST_OPEN)))
    site.hear(asked(0, state=ReclaimState.RUNNING), asked(1, state=ReclaimState.DONE))
    site.hear(asked(MOST_OPEN + 1, state=ReclaimState.DONE))
    found = [site.store.reclaims.get(f"req-{number:05d}") for number in (0, 1, MOST_OPEN + 1)]
    assert [one.state for one in found if one] == [ReclaimState.RUNNING, ReclaimState.DONE, ReclaimState.DONE]
    site.hear(asked(MOST_OPEN + 2), asked(MOST_OPEN + 3))
    assert site.count(reclaim) == MOST_OPEN + 2, "there was room for one"


def test_a_sweep_ends_all_that_are_over_some_hundred_at_a_time(site: Site) -> None:
    many = 2 * AT_ONCE + 7
    with site.store.database.write() as connection:
        rows = [reclaim_row("host-a", asked(number, NOW - 3600.0)) for number in range(many)]
        waits = Reclaim(builders.reclaim_request(id="a-waiting", at=NOW - 61.0, expires=NOW + 3600.0))
        connection.execute(insert(reclaim), [*rows, reclaim_row("host-a", waits)])
    read: list[int] = []

    @happens.listens_for(site.store.database.engine, "after_cursor_execute")
    def look(_connection, _cursor, statement, parameters, _context, _many) -> None:
        if statement.startswith("SELECT reclaim.id, "):
            assert len(parameters) <= AT_ONCE + len(OPEN)
            read.append(1)
        elif statement.startswith("SELECT reclaim.id"):
            assert AT_ONCE in parameters

    site.fleet.sweep()
    assert len(read) == 3
    ended = [one.reclaim for one in site.store.reclaims.page(limit=2 * many, state=ReclaimState.EXPIRED).items]
    assert len(ended) == many
    assert site.store.reclaims.get("a-waiting") == waits


def test_a_damaged_request_keeps_no_host_from_being_told_of_others_and_ends_with_a_sweep(site: Site) -> None:
    ones = [asked(number, NOW - 3600.0) for number in range(2)]
    site.hear(*ones)
    with site.store.database.write() as connection:
        connection.execute(update(reclaim).where(reclaim.c.id == ones[0].request.id).values(document="{"))
    assert [one.reclaim for one in site.store.reclaims.waiting(["host-a"])] == ones[1:]
    site.fleet.sweep()
    with site.store.database.read() as connection:
        states = connection.execute(select(reclaim.c.state).order_by(reclaim.c.id)).scalars().all()
    assert states == ["failed", "expired"]
    assert site.store.reclaims.waiting(["host-a"]) == ()


def test_what_a_host_tells_of_a_damaged_request_keeps_nothing_else_back(site: Site) -> None:
    ones = [asked(number) for number in range(2)]
    site.hear(*ones)
    with site.store.database.write() as connection:
        connection.execute(update(reclaim).where(reclaim.c.id == ones[0].request.id).values(document="{"))
    site.hear(*(replace(one, state=ReclaimState.RUNNING) for one in ones), asked(2))
    assert [one.state for one in site.store.reclaims.newest()] == [ReclaimState.RUNNING, ReclaimState.QUEUED]


def test_a_host_is_told_of_the_oldest_hundred_and_no_other_host_waits_for_it(site: Site) -> None:
    site.hear(*(asked(number, NOW - number) for number in range(500)))
    site.store.reclaims.add(asked(90_000), "host-b")
    found = site.store.reclaims.waiting(["host-a", "host-b"])
    assert [one.reclaim.request.id for one in found] == [f"req-{number:05d}" for number in range(499, 399, -1)] + [
        "req-90000"
    ]


def test_points_far_ahead_that_are_there_already_are_not_read(site: Site) -> None:
    point = HistoryPoint(NOW, 1, 1, 1, 1, 1, 1, 0, None)
    with site.store.database.write() as connection:
        rows = [host_point("host-a", replace(point, at=NOW + at)) for at in (0.0, 10.0, 20.0, 1e11)]
        connection.execute(insert(host_history), rows)
    assert [one.at - NOW for one in site.history.of("host-a")] == [0.0, 10.0, 20.0]
    assert [one.at - NOW for one in site.history.of("host-a", NOW + 5, NOW + 20)] == [10.0]
    assert len(FleetHistory(site.store.database).of(0.0, None, 86400)) == 1


def test_a_fleets_points_are_sums_over_all_hosts_though_they_look_and_tell_at_different_times(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1_800_000_000.0 + 30  # the newest step began half a minute ago: some hosts have told nothing of it
    monkeypatch.setattr(fleet_history, "database_clock", lambda _: now)
    hosts = [f"host-{number}" for number in range(6)]
    for number, host in enumerate(hosts):
        site.fleet.take([State(builders.report(host=host, period=60.0, at=now, epoch=EPOCH), 0.0)])
        told = now - 10 * number  # its last flush
        rows = [
            host_point(host, HistoryPoint(now - 3600 + 10 * number + 60 * look, 1, 1, 100, 1, 1, 1, 0, None))
            for look in range(60)
            if now - 3600 + 10 * number + 60 * look <= told
        ]
        with site.store.database.write() as connection:
            connection.execute(insert(host_history), rows)
    whole = FleetHistory(site.store.database, 60.0 + 3 * 60.0).of(now - 3000, None, 10)
    assert len(whole) > 15
    assert {one.span for one in whole} == {120}
    # the first may have begun before what was asked for
    assert {one.assigned for one in whole[1:]} == {100 * len(hosts)}
    newest = FleetHistory(site.store.database).of(now - 3000, None, 10)[-1]
    assert newest.assigned < 100 * len(hosts)


def test_one_host_alone_has_points_as_fine_as_its_own_and_up_to_now(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1_800_000_000.0
    monkeypatch.setattr(fleet_history, "database_clock", lambda _: now)
    site.fleet.take([State(builders.report(host="host-a", period=10.0, at=now, epoch=EPOCH), 0.0)])
    with site.store.database.write() as connection:
        rows = [host_point("host-a", HistoryPoint(now - 10 * look, 1, 1, 1, 1, 1, 1, 0, None)) for look in range(30)]
        connection.execute(insert(host_history), rows)
    found = FleetHistory(site.store.database).of(now - 200, None, 10)
    assert len(found) >= 20
    assert found[-1].at > now - 20


def test_the_newest_points_of_a_fleet_are_found_without_reading_the_others(site: Site) -> None:
    history = FleetHistory(site.store.database)
    plans = plans_of(site.store.database, lambda: history.of(NOW, None, 300))
    assert "SEARCH host_history USING INDEX ix_host_history_age (span=? AND bucket>?)" in plans
    assert "SCAN host_history" not in plans


@pytest.mark.parametrize("span", [0, 300, 3600])
def test_a_fleets_points_of_any_length_are_there_from_their_moment_on(site: Site, span: int) -> None:
    at = NOW - NOW % 3600 + (3599 if not span else 3600 - span)
    with site.store.database.write() as connection:
        row = host_point("host-a", HistoryPoint(at, 1, 1, 1, 1, 1, 1, 0, None))
        bucket = row["bucket"] if not span else int(at // 3600) * 3600
        connection.execute(insert(host_history), [{**row, "span": span, "bucket": bucket}])
    history = FleetHistory(site.store.database)
    assert len(history.of(at, None, 300)) == 1
    assert len(history.of(at + 0.5, None, 300)) == 0


def test_a_host_whose_agent_never_stays_the_same_fills_no_table(site: Site) -> None:
    for life in range(40):
        site.now += 10.0
        epoch = f"00170000000{life:04d}-0000000a"
        lost = HostRecord("host-a", (), (), 1, epoch=epoch, spool=f"spool-{life}")
        site.fleet.take([State(builders.report(epoch=epoch), 0.0)], [lost])
    kinds = Counter(str(one.kind) for one in happened(site.store))
    assert kinds == {"appeared": 1, "restarted": 12, "lost": 12}


def test_a_host_that_claims_another_provider_each_time_fills_no_table(site: Site) -> None:
    for number in range(100):
        site.now += 2.0
        site.fleet.tell("host-a", HostEventKind.CAPACITY, f"it claims {number}")
    site.fleet.tell("host-a", HostEventKind.MIGRATION, "asked Nova for a live migration")
    site.now += 3600.0
    site.fleet.tell("host-a", HostEventKind.CAPACITY, "an hour later")
    kinds = Counter(str(one.kind) for one in happened(site.store))
    assert kinds == {"capacity": 61, "migration": 1}
