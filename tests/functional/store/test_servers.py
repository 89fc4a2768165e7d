"""What only servers have: they restart under a process that goes on, and they refuse values that SQLite would take."""

from __future__ import annotations

import pytest
from sqlalchemy import insert, select
from sqlalchemy import text as sql

from lab.servers.mariadb import MariaDB
from memhint.objects.gap import Gap, GapReason
from memhint.objects.verdict import Answer, Reason, Verdict
from memhint.store import StoreError, open_store, upsert
from memhint.store.errors import StoreRefused
from memhint.store.fleet import State
from memhint.store.rows.names import DOMAIN_HISTORY_SIZES, DOMAIN_SIZES
from memhint.store.rows.points import Keep
from memhint.store.tables import domain, domain_history, event
from memhint.store.upsert import add_many, prepare_many, upsert_many
from tests.told import pulls
from tests.unit import builders
from tests.unit.builders import NOW, WEB


@pytest.mark.parametrize("url", ["postgresql", "mariadb"], indirect=True)
def test_a_store_goes_on_when_its_server_was_killed_and_is_back(url: str, request: pytest.FixtureRequest) -> None:
    server = request.getfixturevalue("postgres" if url.startswith("postgresql") else "mariadb")
    store = open_store(url)
    store.reports.save(builders.report(sequence=1))
    server.kill()
    with pytest.raises(StoreError) as caught:
        store.reports.save(builders.report(sequence=2, at=NOW + 10))
    assert not isinstance(caught.value, StoreRefused)
    server.start()
    store.reports.save(builders.report(sequence=3, at=NOW + 20))
    found = store.reports.newest()
    assert found is not None
    assert found.sequence == 3
    assert [point.at - NOW for point in store.history.of("host-a")] == [0, 20]
    store.close()


@pytest.mark.parametrize("url", ["postgresql", "mariadb"], indirect=True)
def test_a_value_that_does_not_fit_is_refused_and_the_database_is_not_said_to_be_away(url: str) -> None:
    store = open_store(url)
    row = {
        "at": 1,
        "host": "h" * 300,
        "subject": "",
        "lever": "",
        "desired": "",
        "answer": "",
        "reason": "",
        "detail": "",
    }
    with pytest.raises(StoreRefused), store.database.write() as connection:
        connection.execute(insert(event).values(row))
    assert pulls(store) == ()
    store.close()


@pytest.mark.parametrize(
    "text", ["".join(map(chr, range(1, 256))), "ends with \\", "'; -- \\'", '"%s" %(x)s', "\U0001f4be"]
)
def test_a_text_comes_back_as_it_was(url: str, text: str) -> None:
    store = open_store(url)
    gap = Gap(text, GapReason.UNREADABLE, text)
    store.reports.save(builders.report(gaps=(gap,)))
    found = store.reports.newest()
    assert found is not None
    assert found.gaps == (gap,)
    verdict = Verdict(Answer.FAILED, Reason.HYPERVISOR, text)
    store.events.record("host-a", NOW, [builders.lever_state(verdict=verdict)])
    assert [Verdict(one.answer, one.reason, one.detail) for one in pulls(store)] == [verdict]
    store.close()


def line(**changes: object) -> dict[str, object]:
    """A row of the table of VMs."""
    sizes = dict.fromkeys(DOMAIN_SIZES, 2**40)
    words = {"name": "web-1", "project": None, "state": "running", "qos": "burstable", "source": "host"}
    numbers = {"revision": 1, "fingerprint": -(2**63), "assigned": 2**62}
    return {
        "uuid": WEB,
        "host": "host-a",
        "demand_reason": None,
        "agreement": None,
        **sizes,
        **words,
        **numbers,
    } | changes


def test_many_rows_at_once_are_kept_as_they_are(url: str) -> None:
    store = open_store(url)
    rows = [line(), line(host="host-b", name="a'b\\c\"d\u2028\U0001f4be\x01", project="", demand=None)]
    for _ in range(2):
        with store.database.write() as connection:
            upsert_many(connection, domain, rows)
    with store.database.read() as connection:
        found = [dict(one._mapping) for one in connection.execute(select(domain).order_by(domain.c.host))]
    assert found == rows
    point = {"uuid": WEB, "span": 0, "at": NOW + 0.125, "bucket": 3, "assigned": 2**40}
    sizes = dict.fromkeys(DOMAIN_HISTORY_SIZES)
    for shared in (None, 5):  # what is there already stays as it is
        with store.database.write() as connection:
            add_many(connection, domain_history, [{**point, **sizes, "shared": shared}])
    with store.database.read() as connection:
        assert [dict(one._mapping) for one in connection.execute(select(domain_history))] == [{**point, **sizes}]
    store.close()


@pytest.mark.parametrize("url", ["postgresql", "mariadb"], indirect=True)
@pytest.mark.parametrize("changes", [{"name": "x" * 256}, {"assigned": 2**70}, {"assigned": None}])
def test_of_many_rows_at_once_none_is_kept_where_one_does_not_fit(url: str, changes: dict[str, object]) -> None:
    store = open_store(url)
    with pytest.raises(StoreRefused), store.database.write() as connection:
        upsert_many(connection, domain, [line(), line(host="host-b", **changes)])
    assert store.domains.one(WEB) is None
    store.close()


def test_more_rows_than_a_statement_takes_are_all_kept(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upsert, "ROWS", 3)
    store = open_store(url)
    names = [f"host-{number}" for number in range(8)]
    with store.database.write() as connection:
        upsert_many(connection, domain, [line(host=one) for one in names])
        rows = [{name: value for name, value in line(host=one).items() if name != "revision"} for one in names[:5]]
        prepare_many(connection, domain, rows, late=("revision",))(revision=7)
    with store.database.read() as connection:
        found = connection.execute(select(domain.c.host, domain.c.revision).order_by(domain.c.host)).all()
    assert [tuple(one) for one in found] == [(one, 7 if one in names[:5] else 1) for one in names]
    store.close()


@pytest.mark.parametrize("url", ["mariadb"], indirect=True)
@pytest.mark.parametrize("changes", [{"name": "x" * 256}, {"assigned": 2**70}, {"assigned": None}])
def test_what_does_not_fit_is_refused_by_a_server_that_would_make_it_fit(
    url: str, changes: dict[str, object], mariadb: MariaDB
) -> None:
    mariadb.sql("SET GLOBAL sql_mode = ''")
    try:
        store = open_store(url)
        with pytest.raises(StoreRefused), store.database.write() as connection:
            upsert_many(connection, domain, [line(), line(host="host-b", **changes)])
        store.close()
    finally:
        mariadb.sql("SET GLOBAL sql_mode = DEFAULT")


@pytest.mark.parametrize("url", ["mariadb"], indirect=True)
def test_the_clock_does_not_go_by_the_servers_time_zone(url: str, mariadb: MariaDB) -> None:
    mariadb.sql("SET GLOBAL time_zone = '+02:00'")
    try:
        store = open_store(url)
        with store.database.read() as connection:
            assert connection.execute(sql("SELECT @@SESSION.time_zone")).scalar_one() == "+00:00"
        store.close()
    finally:
        mariadb.sql("SET GLOBAL time_zone = DEFAULT")


@pytest.mark.parametrize("url", ["mariadb"], indirect=True)
def test_what_an_url_says_of_the_session_is_kept(url: str) -> None:
    store = open_store(f"{url}&init_command=SET SESSION max_statement_time=17&read_timeout=30")
    with store.database.read() as connection:
        assert connection.execute(sql("SELECT @@SESSION.max_statement_time")).scalar_one() == 17
        assert "NO_BACKSLASH_ESCAPES" in connection.execute(sql("SELECT @@SESSION.sql_mode")).scalar_one()
    store.close()


@pytest.mark.parametrize("url", ["mariadb"], indirect=True)
def test_an_upgrade_may_take_longer_than_an_answer(url: str) -> None:
    store = open_store(f"{url}&read_timeout=1")
    with store.database.alone() as connection:
        assert connection.execute(sql("SELECT SLEEP(1.5)")).scalar_one() == 0
    with pytest.raises(StoreError, match="timed out"), store.database.read() as connection:
        connection.execute(sql("SELECT SLEEP(5)"))
    store.close()


@pytest.mark.parametrize("url", ["mariadb"], indirect=True)
def test_many_rows_go_in_few_statements(url: str) -> None:
    store = open_store(url)

    def inserts() -> int:
        with store.database.read() as connection:
            return int(connection.execute(sql("SHOW GLOBAL STATUS LIKE 'Com_insert'")).one()[1])

    epoch = "001700000000000-0000000a"
    reports = [builders.report(host=f"host-{number}", epoch=epoch) for number in range(100)]
    before = inserts()
    store.fleet.take([State(one, 70.0) for one in reports])
    assert len(store.hosts_view.all()) == 100
    assert inserts() - before <= 20
    store.close()


def test_an_event_that_is_too_long_or_has_a_nul_is_kept_as_far_as_it_fits(url: str) -> None:
    store = open_store(url)
    store.events.record("host-a", NOW, [builders.lever_state(desired="on\0" + "x" * 100)])
    store.events.record("host-a", NOW, [builders.lever_state(desired="told twice")])
    (found,) = pulls(store)
    assert found.desired == "on" + "x" * 62
    store.close()


def test_history_becomes_the_worst_of_five_minutes_then_of_an_hour(url: str) -> None:
    store = open_store(url, keep=Keep(3600.0, 86400.0, 30 * 86400.0))
    start = NOW - NOW % 3600
    for number, free in enumerate((7, 3, 5)):
        memory = builders.host_memory(available=free, swap_used=free)
        for host in ("host-a", "host-b"):
            seen = builders.host_observation(memory=memory, pressure=None if free == 7 else builders.pressure())
            store.reports.save(builders.report(host=host, at=start + 200 * number, observation=seen))

    def points() -> list[tuple[float, int, int, int, float | None]]:
        found = store.history.of("host-a")
        assert len(store.history.of("host-b")) == len(found)
        return [(one.at - start, one.span, one.available, one.swap_used, one.psi) for one in found]

    assert points() == [(0, 0, 7, 7, None), (200, 0, 3, 3, 0.5), (400, 0, 5, 5, 0.5)]
    for _ in range(2):
        store.history.tidy(start + 3600 + 300)
        assert points() == [(0, 300, 3, 7, 0.5), (400, 0, 5, 5, 0.5)]
    store.history.tidy(start + 86_400 + 3599)
    assert points() == [(0, 300, 3, 7, 0.5), (300, 300, 5, 5, 0.5)]
    for _ in range(2):
        store.history.tidy(start + 86_400 + 3600)
        assert points() == [(0, 3600, 3, 7, 0.5)]
    store.history.tidy(start + 31 * 86_400)
    assert points() == []
    store.close()
