"""Numbers of changes: a client that asks for what is newer than a number misses nothing.

A database that was restored, or whose standby lost the last commits, would count on from an older number, while clients
and hosts know newer ones. So a number is no less than the time in microseconds, which makes it newer than all that were
lost. Numbers that were given out are kept: one that is not among them was lost.
"""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import Connection, case, delete, func, insert, select, update

from memhint.store.errors import ChangesExpired
from memhint.store.rows.revisions import GIVEN, TOLD, given_row, grave, least
from memhint.store.tables import revision, tombstone
from memhint.store.upsert import upsert_many


def take(connection: Connection, now: float) -> int:
    """The next number. Until the caller's transaction ends, no other gets one: take it late.

    :param now: unix seconds on the clock of the store
    """
    following = case((revision.c.value < least(now), least(now)), else_=revision.c.value + 1)
    connection.execute(update(revision).where(revision.c.id == 1).values(value=following))
    number = int(connection.execute(select(revision.c.value)).scalar_one())
    connection.execute(insert(tombstone).values(**given_row(number, now)))
    return number


def newest(connection: Connection) -> int:
    """The number of the newest change that can be seen, or one shortly before it that is known to have been given."""
    value = int(connection.execute(select(revision.c.value)).scalar_one())
    if _given(connection, value):
        return value
    # A controller of an earlier version keeps none: telling a little again is better than to expire each token.
    last = select(func.max(tombstone.c.revision)).where(tombstone.c.kind == GIVEN)
    return int(connection.execute(last).scalar() or value)


def since(connection: Connection, token: str) -> int:
    """The number in a token.

    :raises ChangesExpired: where what has changed since can no longer be told
    """
    value, oldest = connection.execute(select(revision.c.value, revision.c.oldest)).one()
    if not (token.isascii() and token.isdecimal() and len(token) <= 18 and oldest <= int(token) <= value):
        raise ChangesExpired("what has changed since then is not known any more: begin with a whole list")
    number = int(token)
    if number not in (value, oldest) and not _given(connection, number) and _keeps(connection):
        raise ChangesExpired("the database has lost what was told then: begin with a whole list")
    return number


def bury(connection: Connection, kind: str, names: Iterable[str], number: int, now: float) -> None:
    """Note that these are no more."""
    rows = [grave(kind, name, number, now) for name in names]
    upsert_many(connection, tombstone, rows)


def tidy(connection: Connection, now: float) -> None:
    """Forget what was told for long enough."""
    old = tombstone.c.at < now - TOLD
    last = connection.execute(select(func.max(tombstone.c.revision)).where(old)).scalar()
    if last is not None:
        connection.execute(update(revision).where(revision.c.oldest < last).values(oldest=last))
        connection.execute(delete(tombstone).where(old, tombstone.c.revision <= last))


def _given(connection: Connection, number: int) -> bool:
    one = select(tombstone.c.revision).where(tombstone.c.kind == GIVEN, tombstone.c.name == str(number))
    return connection.execute(one).first() is not None


def _keeps(connection: Connection) -> bool:
    return connection.execute(select(tombstone.c.name).where(tombstone.c.kind == GIVEN).limit(1)).first() is not None
