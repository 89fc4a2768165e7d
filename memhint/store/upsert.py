"""Write rows whether they are there or not, many at a time, in each database's own words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

from sqlalchemy import Connection, Table

Row = Mapping[str, object]


def upsert(connection: Connection, table: Table, *rows: Row) -> None:
    """Replace the rows with the primary keys in ``rows``, or add them. All rows name the same columns."""
    if not rows:
        return
    keys = {column.name for column in table.primary_key}
    others = [name for name in rows[0] if name not in keys]
    made = _insert(connection, table)
    if _is_mariadb(connection):
        made = made.on_duplicate_key_update({name: made.inserted[name] for name in others})
    else:
        made = made.on_conflict_do_update(
            index_elements=sorted(keys), set_={name: made.excluded[name] for name in others}
        )
    connection.execute(made, _plain(rows))


def add_new(connection: Connection, table: Table, *rows: Row) -> None:
    """Add those rows that no unique key of the table has yet, and leave the others as they are."""
    if not rows:
        return
    made = _insert(connection, table)
    if _is_mariadb(connection):
        # IGNORE would also let values through that do not fit; setting a key to itself changes nothing.
        key = next(iter(table.primary_key)).name
        made = made.on_duplicate_key_update({key: table.c[key]})
    else:
        made = made.on_conflict_do_nothing()
    connection.execute(made, _plain(rows))


def _plain(rows: Sequence[Row]) -> list[dict[str, object]]:
    return [dict(row) for row in rows]


def _is_mariadb(connection: Connection) -> bool:
    return connection.dialect.name in ("mysql", "mariadb")


def _insert(connection: Connection, table: Table) -> Any:
    name = "mysql" if _is_mariadb(connection) else connection.dialect.name
    return import_module(f"sqlalchemy.dialects.{name}").insert(table)
