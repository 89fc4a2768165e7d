"""How a history grows old: of all points in a span, the worst stays, and at last nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Column, ColumnElement, Connection, Table, delete, exists, func, insert, literal, select

from memhint.store.engine import Database
from memhint.store.rows.points import HOUR

PART = 500  # points of which the owners are thinned in one transaction, each with all it has in the bucket
SLICE = 10_000  # rows that are dropped in one transaction, with all of the same age


@dataclass(frozen=True, slots=True)
class Numbers:
    """A table of points: whose they are, and which of two numbers is the worse."""

    table: Table
    key: str  # the column that tells whose points they are
    least: Sequence[str]  # numbers of which the smallest is the worst
    most: Sequence[str]  # and those of which the largest is


def thin(database: Database, of: Numbers, fine: int, coarse: int, before: float) -> None:
    """Make one point of all that lie in one bucket, where the whole bucket is older than ``before``.

    Each transaction takes a few owners in one bucket: an hour of a large fleet is more than a server does at once.

    :param fine: seconds of the points that become one; ``coarse``: of the one
    :raises StoreError: when the database fails; what was thinned until then stays so
    """
    whole = int(before // coarse) * coarse  # buckets that begin before this one are over
    more = True
    while more:
        with database.alone() as connection:
            more = _thin_some(connection, of, fine, coarse, whole)


def drop(database: Database, age: Column[Any], before: float, *which: ColumnElement[bool]) -> None:
    """Delete the rows whose ``age`` is less than ``before``, in slices, the oldest first: no transaction is longer for
    how much there is.

    :param age: a column that has an index, or that ``which`` begins one with
    :raises StoreError: when the database fails; what was dropped until then stays so
    """
    more = True
    while more:
        with database.alone() as connection:
            more = _drop_some(connection, age, *which, age < before)


def _drop_some(connection: Connection, age: Column[Any], *old: ColumnElement[bool]) -> bool:
    """Delete a slice; whether there is more."""
    last = connection.execute(select(age).where(*old).order_by(age).offset(SLICE - 1).limit(1)).scalar()
    some = old if last is None else (*old, age <= last)
    connection.execute(delete(age.table).where(*some))
    return last is not None


def _thin_some(connection: Connection, of: Numbers, fine: int, coarse: int, whole: int) -> bool:
    """Thin some owners' points in the oldest bucket; whether there were any."""
    table, there = of.table, of.table.alias()
    whose: Column[str] = table.c[of.key]
    bucket, following = table.c.bucket, table.c.bucket - table.c.bucket % HOUR
    due = (table.c.span == fine) & (bucket < whole)
    oldest = connection.execute(select(bucket).where(due).order_by(bucket).limit(1)).scalar()
    if oldest is None:
        return False
    within = (table.c.span == fine) & (bucket == oldest)
    owners = sorted(set(connection.execute(select(whose).where(within).limit(PART)).scalars()))
    old = within & whose.in_(owners)
    same = exists().where(there.c.span == coarse, there.c[of.key] == whose, there.c.at == bucket)
    worst = [func.min(table.c[name]) for name in of.least] + [func.max(table.c[name]) for name in of.most]
    thinned = select(literal(coarse), whose, bucket, following, *worst).where(old, ~same)
    names = ["span", of.key, "at", "bucket", *of.least, *of.most]
    connection.execute(insert(table).from_select(names, thinned.group_by(whose, bucket)))
    return connection.execute(delete(table).where(old)).rowcount > 0
