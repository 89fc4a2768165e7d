from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Dialect, text
from sqlalchemy.dialects import mysql, postgresql
from sqlalchemy.schema import CreateTable
from sqlalchemy.types import TypeEngine

from memhint.store import Store, StoreMissing, StoreVersion, open_store, schema, versions
from memhint.store.tables import metadata


def _differs(context: MigrationContext, _: object, __: object, found: TypeEngine, wanted: TypeEngine) -> bool | None:
    """MariaDB makes a LONGTEXT of a TEXT that is as long; everything else Alembic compares itself."""
    names = (found.compile(context.dialect), wanted.compile(context.dialect))
    return False if names == ("LONGTEXT", "TEXT(4294967295)") else None


def test_migrations_make_the_tables_of_the_metadata(store: Store) -> None:
    with store.database.read() as connection:
        context = MigrationContext.configure(
            connection, opts={"compare_type": _differs, "compare_server_default": True}
        )
        assert compare_metadata(context, metadata) == []


def test_the_known_revisions_are_those_of_the_scripts() -> None:
    scripts = ScriptDirectory(str(Path(schema.__file__).parent / "migrations"))
    assert tuple(one.revision for one in reversed(list(scripts.walk_revisions()))) == versions.REVISIONS
    assert scripts.get_current_head() == versions.HEAD


def test_a_store_that_is_up_to_date_is_left_alone(store: Store, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise AssertionError("nothing is to be upgraded")

    monkeypatch.setattr(schema, "_upgrade", fail)
    open_store(url).close()


def test_a_store_of_a_newer_memhint_is_refused(store: Store, url: str) -> None:
    with store.database.write() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    for create in (True, False):
        with pytest.raises(StoreVersion, match=r"newer memhint \(9999.*upgrade memhint"):
            open_store(url, create=create)


def test_a_store_of_an_older_memhint_is_only_upgraded_by_the_agent(
    store: Store, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(versions, "REVISIONS", (versions.HEAD, "next"))
    monkeypatch.setattr(versions, "HEAD", "next")
    with pytest.raises(StoreVersion, match="restart the agent"):
        open_store(url, create=False)


def test_a_file_without_tables_is_a_missing_store(tmp_path: Path) -> None:
    path = tmp_path / "empty.db"
    path.touch()
    with pytest.raises(StoreMissing, match="start the agent"):
        open_store(f"sqlite:///{path}", create=False)


def test_an_interrupted_upgrade_leaves_nothing_behind(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = schema._upgrade

    def killed(connection: object) -> None:
        whole(connection)  # type: ignore[arg-type]
        raise KeyboardInterrupt

    monkeypatch.setattr(schema, "_upgrade", killed)
    with pytest.raises(KeyboardInterrupt):
        open_store(url)
    # MariaDB commits each change of a table, and with it what the revisions before have made
    with pytest.raises((StoreMissing, StoreVersion), match=r"no tables|older memhint"):
        open_store(url, create=False)
    monkeypatch.setattr(schema, "_upgrade", whole)
    open_store(url).close()
    open_store(url, create=False).close()


@pytest.mark.parametrize("make", [postgresql.dialect, mysql.dialect])
def test_other_databases_can_hold_the_tables(make: Callable[[], Dialect]) -> None:
    for table in metadata.sorted_tables:
        made = str(CreateTable(table).compile(dialect=make()))
        assert table.name in made
        assert "FLOAT" not in made, "single precision cannot hold a unix time"
