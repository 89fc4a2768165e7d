"""Rows are added or replaced by their columns' names."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Mapping, Sequence

Row = Mapping[str, object]


def add(connection: sqlite3.Connection, table: str, row: Row) -> None:
    """Add a row whose primary key is new: the database refuses one that is there."""
    _insert(connection, table, [row], "")


def upsert(connection: sqlite3.Connection, table: str, *rows: Row) -> None:
    """Replace the rows with the primary keys in ``rows``, or add them. All rows name the same columns."""
    if rows:
        values = ", ".join(f'"{name}" = excluded."{name}"' for name in rows[0])
        _insert(connection, table, rows, f" ON CONFLICT DO UPDATE SET {values}")


def add_new(connection: sqlite3.Connection, table: str, *rows: Row) -> None:
    """Add those rows that no unique key of the table has yet, and leave the others as they are."""
    if rows:
        _insert(connection, table, rows, " ON CONFLICT DO NOTHING")


def places(values: Collection[object]) -> str:
    """A question mark for each value, for `IN`."""
    return f"({', '.join('?' * len(values))})"


def _insert(connection: sqlite3.Connection, table: str, rows: Sequence[Row], on_conflict: str) -> None:
    names = ", ".join(f'"{name}"' for name in rows[0])
    values = ", ".join(f":{name}" for name in rows[0])
    statement = f"INSERT INTO {table} ({names}) VALUES ({values}){on_conflict}"
    connection.executemany(statement, rows)
