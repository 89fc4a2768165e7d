"""Numbers by which changes are told: whoever asks for what is newer than a number misses nothing."""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import Connection, delete, func, select, update

from memhint.store.errors import ChangesExpired
from memhint.store.tables import revision, tombstone
from memhint.store.upsert import upsert_many

HOST, DOMAIN = "host", "domain"  # what a tombstone is of
TOLD = 3600.0  # seconds for which it is told that something is no more


def take(connection: Connection) -> int:
    """The next number. Until the caller's transaction ends, nobody else gets one: take it late."""
    connection.execute(update(revision).where(revision.c.id == 1).values(value=revision.c.value + 1))
    return int(connection.execute(select(revision.c.value)).scalar_one())


def newest(connection: Connection) -> int:
    """The number of the newest change that can be seen."""
    return int(connection.execute(select(revision.c.value)).scalar_one())


def since(connection: Connection, token: str) -> int:
    """The number in a token.

    :raises ChangesExpired: where what has changed since can no longer be told
    """
    value, oldest = connection.execute(select(revision.c.value, revision.c.oldest)).one()
    if not (token.isascii() and token.isdecimal() and len(token) <= 18 and oldest <= int(token) <= value):
        raise ChangesExpired("what has changed since then is not known any more: begin with a whole list")
    return int(token)


def bury(connection: Connection, kind: str, names: Iterable[str], number: int, now: float) -> None:
    """Note that these are no more."""
    rows = [{"kind": kind, "name": name, "revision": number, "at": now} for name in names]
    upsert_many(connection, tombstone, rows)


def tidy(connection: Connection, now: float) -> None:
    """Forget what was told for long enough."""
    old = tombstone.c.at < now - TOLD
    last = connection.execute(select(func.max(tombstone.c.revision)).where(old)).scalar()
    if last is not None:
        connection.execute(update(revision).where(revision.c.oldest < last).values(oldest=last))
        connection.execute(delete(tombstone).where(old, tombstone.c.revision <= last))
