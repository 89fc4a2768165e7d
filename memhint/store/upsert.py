"""Write a row whether it is there or not, in words that every database knows."""

from __future__ import annotations

from collections.abc import Mapping

from sqlalchemy import Connection, Table, insert, update


def upsert(connection: Connection, table: Table, values: Mapping[str, object]) -> None:
    """Replace the row with the primary key in ``values``, or add it. Inside the caller's transaction."""
    keys = {column.name for column in table.primary_key}
    change = update(table).values({name: value for name, value in values.items() if name not in keys})
    for name in keys:
        change = change.where(table.c[name] == values[name])
    if connection.execute(change).rowcount == 0:
        connection.execute(insert(table).values(dict(values)))
