"""How a history grows old: of all points in a span, the worst stays."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Column, Connection, Table, delete, exists, func, insert, literal, select

from memhint.store.engine import Database
from memhint.store.rows.points import HOUR

PART = 500  # points of which the owners are thinned in one transaction, each with all it has in the bucket


def thin(
    database: Database,
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

    Each transaction takes a few owners in one bucket: an hour of a large fleet is more than a server does at once.

    :param key: the column that tells whose points they are
    :param least: numbers of which the smallest is the worst; ``most``: the largest
    :raises StoreError: when the database fails; what was thinned until then stays so
    """
    whole = int(before // coarse) * coarse  # buckets that begin before this one are over
    more = True
    while more:
        with database.alone() as connection:
            more = _thin_some(connection, table, key, least, most, fine, coarse, whole)


def _thin_some(
    connection: Connection,
    table: Table,
    key: str,
    least: Sequence[str],
    most: Sequence[str],
    fine: int,
    coarse: int,
    whole: int,
) -> bool:
    """Thin some owners' points in the oldest bucket; whether there were any."""
    there = table.alias()
    whose: Column[str] = table.c[key]
    bucket, following = table.c.bucket, table.c.bucket - table.c.bucket % HOUR
    due = (table.c.span == fine) & (bucket < whole)
    oldest = connection.execute(select(bucket).where(due).order_by(bucket).limit(1)).scalar()
    if oldest is None:
        return False
    within = (table.c.span == fine) & (bucket == oldest)
    owners = sorted(set(connection.execute(select(whose).where(within).limit(PART)).scalars()))
    old = within & whose.in_(owners)
    same = exists().where(there.c.span == coarse, there.c[key] == whose, there.c.at == bucket)
    worst = [func.min(table.c[name]) for name in least] + [func.max(table.c[name]) for name in most]
    thinned = select(literal(coarse), whose, bucket, following, *worst).where(old, ~same)
    names = ["span", key, "at", "bucket", *least, *most]
    connection.execute(insert(table).from_select(names, thinned.group_by(whose, bucket)))
    return connection.execute(delete(table).where(old)).rowcount > 0
