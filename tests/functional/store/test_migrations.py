"""Every revision up and down on every database, with something in the tables."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from alembic import command
from sqlalchemy import inspect, text

from memhint.objects.history import HistoryPoint
from memhint.store import open_store, schema, versions
from memhint.store.engine import Database, connect, parse_url
from memhint.store.file import file_of, make_file
from memhint.store.tables import metadata
from tests.told import pulls
from tests.unit import builders

POINT = "10, 9, 8, 7, 6, 5, 4, 1.5"


@pytest.fixture
def database(url: str) -> Iterator[Database]:
    parsed = parse_url(url)
    path = file_of(parsed)
    if path is not None:
        make_file(path)
    opened = connect(parsed)
    yield opened
    opened.close()


def tables(database: Database) -> set[str]:
    return set(inspect(database.engine).get_table_names()) - {"alembic_version"}


def test_every_revision_goes_up_and_down_again(database: Database) -> None:
    for _ in range(2):
        for one in versions.REVISIONS:
            with database.alone() as connection:
                command.upgrade(schema.scripts(connection), one)
        assert tables(database) == set(metadata.tables)
        for one in (*reversed(versions.REVISIONS[:-1]), "base"):
            with database.alone() as connection:
                command.downgrade(schema.scripts(connection), one)
        assert tables(database) == set()


def test_history_outlives_the_way_to_spans_and_back(database: Database, url: str) -> None:
    with database.alone() as connection:
        command.upgrade(schema.scripts(connection), "0001")
    columns = "host, at, headroom, nominal_headroom, assigned, footprint, resident, available, swap_used, psi"
    with database.write() as connection:
        for at in (1_700_000_000.25, 1_700_000_010.25, 1_700_000_010.25):
            connection.execute(text(f"INSERT INTO history ({columns}) VALUES ('host-a', {at}, {POINT})"))
        for _ in range(2):
            connection.execute(
                text(
                    "INSERT INTO event (at, host, subject, lever, desired, answer, reason, detail) "
                    "VALUES (1, 'host-a', 's', 'reporting', 'on', 'applied', 'none', '')"
                )
            )
    store = open_store(url)
    first, second = store.history.of("host-a")
    assert first == HistoryPoint(1_700_000_000.25, 10, 9, 8, 7, 6, 5, 4, 1.5)
    assert second.at == 1_700_000_010.25
    assert len(pulls(store)) == 1
    store.history.tidy(1_700_000_000 + 86_400 + 700)
    assert [point.span for point in store.history.of("host-a")] == [300]
    store.close()
    with database.alone() as connection:
        command.downgrade(schema.scripts(connection), "0001")
    with database.read() as connection:
        assert connection.execute(text("SELECT COUNT(*) FROM history")).scalar() == 0


@pytest.mark.parametrize("url", ["mariadb"], indirect=True)
def test_names_that_differ_by_case_are_two_on_mariadb_too(url: str) -> None:
    store = open_store(url, host="host-a")
    for host in ("host-a", "HOST-A", "host-\u00e4"):
        store.reports.save(builders.report(host=host))
    assert set(store.reports.hosts()) == {"host-a", "HOST-A", "host-\u00e4"}
    store.close()
