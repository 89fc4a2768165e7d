"""Whether the tables are those of this memhint, and their upgrade. Alembic is only loaded where something is to do."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import Connection, inspect, text

from memhint.store.engine import Database, redacted
from memhint.store.versions import HEAD, check_version, refuse_newer

if TYPE_CHECKING:
    from alembic.config import Config


def check(database: Database) -> None:
    """Hold the tables against this memhint, changing nothing.

    :raises StoreMissing: where there are none yet
    :raises StoreVersion: where they are older or newer than this memhint
    """
    with database.read() as connection:
        found = _revision(connection)
    check_version(found, redacted(database.engine.url))


def ensure(database: Database) -> None:
    """Make or upgrade the tables.

    :raises StoreVersion: where they are newer than this memhint
    :raises StoreError: when the database fails
    """
    name = redacted(database.engine.url)
    with database.read() as connection:
        found = _revision(connection)
    if found == HEAD:
        return
    with database.alone() as connection:
        found = _revision(connection)  # again: another process may have been faster
        if found is not None:
            refuse_newer(found, name)
        if found != HEAD:
            _upgrade(connection)


def _revision(connection: Connection) -> str | None:
    if not inspect(connection).has_table("alembic_version"):
        return None
    found = connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
    return None if found is None else str(found)


def _upgrade(connection: Connection) -> None:
    from alembic import command

    command.upgrade(scripts(connection), "head")


def scripts(connection: Connection) -> Config:
    """What Alembic needs to move the tables of a connection up or down."""
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations").replace("%", "%%"))
    config.attributes["connection"] = connection
    return config
