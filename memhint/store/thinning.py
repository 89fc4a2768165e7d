"""How a history grows old: of all points in a span, the worst stays."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Column, Connection, Table, delete, exists, func, insert, literal, select

from memhint.store.rows.points import HOUR


def thin(
    connection: Connection,
    table: Table,
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
    old = (table.c.span == fine) & (table.c.bucket < whole)
    there = table.alias()
    whose: Column[str] = table.c[key]
    bucket, following = table.c.bucket, table.c.bucket - table.c.bucket % HOUR
    same = exists().where(there.c.span == coarse, there.c[key] == whose, there.c.at == bucket)
    worst = [func.min(table.c[name]) for name in least] + [func.max(table.c[name]) for name in most]
    thinned = select(literal(coarse), whose, bucket, following, *worst).where(old, ~same)
    names = ["span", key, "at", "bucket", *least, *most]
    connection.execute(insert(table).from_select(names, thinned.group_by(whose, bucket)))
    connection.execute(delete(table).where(old))
