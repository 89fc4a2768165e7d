"""How what is kept grows old: of all points in a span, the worst stays."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from memhint.store.rows.points import FIVE_MINUTES, HOUR, clock_windows


def proven(connection: sqlite3.Connection, now: float, keep: float) -> bool:
    """Whether the clock may be trusted with deleting, see `memhint.store.retention`."""
    query = f"SELECT 1 FROM host_history WHERE span IN (0, {FIVE_MINUTES}, {HOUR}) AND bucket BETWEEN ? AND ? LIMIT 1"
    return all(connection.execute(query, window).fetchone() is not None for window in clock_windows(now, keep))


def thin(
    connection: sqlite3.Connection,
    table: str,
    key: str,
    *,
    least: Sequence[str],
    most: Sequence[str],
    fine: int,
    coarse: int,
    before: float,
) -> None:
    """Make one point of all that lie in one bucket, where the whole bucket is older than ``before``.

    :param key: the column that tells whose points they are
    :param least: numbers of which the smallest is the worst; ``most``: the largest
    """
    whole = int(before // coarse) * coarse  # buckets that begin before this one are over
    worst = ", ".join([f"MIN({name})" for name in least] + [f"MAX({name})" for name in most])
    connection.execute(
        f"""
        INSERT INTO {table} (span, {key}, at, bucket, {", ".join((*least, *most))})
        SELECT {coarse}, {key}, bucket, bucket - bucket % {HOUR}, {worst} FROM {table} AS old
        WHERE span = ? AND bucket < ? AND NOT EXISTS (
            SELECT 1 FROM {table} AS there
            WHERE there.span = ? AND there.{key} = old.{key} AND there.at = old.bucket)
        GROUP BY {key}, bucket
        """,
        (fine, whole, coarse),
    )
    connection.execute(f"DELETE FROM {table} WHERE span = ? AND bucket < ?", (fine, whole))
