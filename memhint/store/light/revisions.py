"""Numbers of changes, see `memhint.store.revisions`."""

from __future__ import annotations

import sqlite3

from memhint.store.light.rows import add_new
from memhint.store.rows.revisions import TOLD, given_row, least


def take(connection: sqlite3.Connection, now: float) -> int:
    """The next number. Until the caller's transaction ends, no other gets one: take it late.

    :param now: unix seconds
    """
    following = "CASE WHEN value < :least THEN :least ELSE value + 1 END"
    connection.execute(f"UPDATE revision SET value = {following} WHERE id = 1", {"least": least(now)})
    number = int(connection.execute("SELECT value FROM revision").fetchone()[0])
    add_new(connection, "tombstone", given_row(number, now))
    return number


def tidy(connection: sqlite3.Connection, now: float) -> None:
    """Forget what was told for long enough."""
    old = now - TOLD
    (last,) = connection.execute("SELECT MAX(revision) FROM tombstone WHERE at < ?", (old,)).fetchone()
    if last is not None:
        connection.execute("UPDATE revision SET oldest = ? WHERE oldest < ?", (last, last))
        connection.execute("DELETE FROM tombstone WHERE at < ? AND revision <= ?", (old, last))
