"""Write rows whether they are there or not, many at a time, in each database's own words."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

from sqlalchemy import JSON, Connection, Table, bindparam, cast, column, func, select

Row = Mapping[str, object]


def upsert(connection: Connection, table: Table, *rows: Row) -> None:
    """Replace the rows with the primary keys in ``rows``, or add them. All rows name the same columns."""
    if not rows:
        return
    connection.execute(_replacing(connection, table, _insert(connection, table), list(rows[0])), _plain(rows))


def upsert_many(connection: Connection, table: Table, rows: Sequence[Row]) -> None:
    """The same for thousands of short rows, no two with one primary key: a single statement where that pays."""
    if not rows:
        return
    if connection.dialect.name != "postgresql":
        upsert(connection, table, *rows)
        return
    made, text = _from_json(connection, table, rows)
    connection.execute(_replacing(connection, table, made, list(rows[0])), {"rows": text})


def add_many(connection: Connection, table: Table, rows: Sequence[Row]) -> None:
    """Add those of thousands of short rows that are not there yet."""
    if not rows:
        return
    if connection.dialect.name != "postgresql":
        add_new(connection, table, *rows)
        return
    made, text = _from_json(connection, table, rows)
    connection.execute(made.on_conflict_do_nothing(), {"rows": text})


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


def _replacing(connection: Connection, table: Table, made: Any, names: Sequence[str]) -> Any:
    keys = {one.name for one in table.primary_key}
    others = [name for name in names if name not in keys]
    if _is_mariadb(connection):
        return made.on_duplicate_key_update({name: made.inserted[name] for name in others})
    return made.on_conflict_do_update(index_elements=sorted(keys), set_={name: made.excluded[name] for name in others})


def _from_json(connection: Connection, table: Table, rows: Sequence[Row]) -> tuple[Any, str]:
    """An insert of rows that come as one text: values one by one cost driver and server much more."""
    names = list(rows[0])
    columns = [column(name, table.c[name].type) for name in names]
    given = (
        func.json_to_recordset(cast(bindparam("rows"), _Text())).table_valued(*columns).render_derived(with_types=True)
    )
    made = _insert(connection, table).from_select(names, select(*(given.c[name] for name in names)))
    return made, json.dumps(_plain(rows), separators=(",", ":"), allow_nan=False)


class _Text(JSON):
    """JSON that is a text already."""

    def bind_processor(self, dialect: Any) -> None:
        """Leave it as it is."""


def _plain(rows: Sequence[Row]) -> list[dict[str, object]]:
    return [dict(row) for row in rows]


def _is_mariadb(connection: Connection) -> bool:
    return connection.dialect.name in ("mysql", "mariadb")


def _insert(connection: Connection, table: Table) -> Any:
    name = "mysql" if _is_mariadb(connection) else connection.dialect.name
    return import_module(f"sqlalchemy.dialects.{name}").insert(table)
