"""What happened on all hosts, newest first: what levers did and what controllers saw, as one list."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import Connection, Select, Table, and_, func, or_, select

from memhint.objects.lever import LeverName
from memhint.objects.ownership import HOST
from memhint.objects.verdict import Answer, Reason
from memhint.objects.words import read_word
from memhint.store.engine import Database
from memhint.store.errors import ChangesExpired, MarkerError
from memhint.store.instances import followed, said_to_belong, told_by_its_host
from memhint.store.parts import parts
from memhint.store.tables import domain, event, host_event

LEVER = "lever"  # the kind of what a lever did; a host's events have kinds of their own
REFUSED = (Answer.REFUSED, Answer.CONFLICT, Answer.UNSUPPORTED, Answer.FAILED)


@dataclass(frozen=True, slots=True)
class LogEntry:
    """One event. ``at`` is unix seconds; what only a lever's has is None in a host's."""

    at: float
    kind: str
    host: str
    detail: str
    domain: str | None = None
    domain_name: str | None = None  # None too of a VM that no host has any more
    lever: LeverName | None = None
    desired: str | None = None
    answer: Answer | None = None
    reason: Reason | None = None


@dataclass(frozen=True, slots=True)
class LogFilter:
    """Which; None is any. ``project`` leaves only what concerns VMs of that project."""

    host: str | None = None
    domain: str | None = None
    kind: str | None = None
    since: float | None = None
    project: str | None = None
    answers: tuple[Answer, ...] = ()


@dataclass(frozen=True, slots=True)
class LogPage:
    """Part of it; ``next`` is the marker of what follows."""

    items: tuple[LogEntry, ...]
    next: str | None


@dataclass(frozen=True, slots=True)
class Cursor:
    """How far somebody has read: the last row of either table."""

    levers: int
    hosts: int


class Log:
    """Both tables of events. Every method raises StoreError when the database fails."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def page(self, which: LogFilter, limit: int, marker: str | None = None) -> LogPage:
        """Up to ``limit`` of them, newest first.

        :raises MarkerError: on a marker that this did not make
        """
        after = _parse(marker) if marker is not None else None
        found: list[tuple[tuple[float, int, int], LogEntry]] = []
        with self._database.read() as connection:
            for rank, query in _queries(which, followed(connection)):
                table = (event, host_event)[rank]
                if after is not None:
                    query = query.where(_older(table, rank, after))
                query = query.order_by(table.c.at.desc(), table.c.id.desc()).limit(limit + 1)
                for number, *row in connection.execute(query):
                    entry = _ENTRY_OF[rank](row)
                    found.append(((-entry.at, rank, -number), entry))
            found.sort(key=lambda one: one[0])
            shown = found[:limit]
            named = _named(connection, [one for _, one in shown])
        last = shown[-1][0] if len(found) > limit else None
        return LogPage(named, None if last is None else f"{-last[0]!r},{last[1]},{-last[2]}")

    def cursor(self) -> Cursor:
        """Where the log ends now."""
        with self._database.read() as connection:
            return Cursor(*_ends(connection))

    def after(self, cursor: Cursor, limit: int) -> tuple[tuple[LogEntry, ...], Cursor]:
        """What came since, oldest first, ``limit`` of each table at most, and where that ends.

        :raises ChangesExpired: where the log ends before that cursor: the database has lost what was read
        """
        ends = [cursor.levers, cursor.hosts]
        found: list[LogEntry] = []
        with self._database.read() as connection:
            if any(have < read for have, read in zip(_ends(connection), ends, strict=True)):
                raise ChangesExpired("the log ends before that cursor: read all of it again")
            for rank, query in _queries(LogFilter(), by_nova=False):
                table = (event, host_event)[rank]
                query = query.where(table.c.id > ends[rank]).order_by(table.c.id).limit(limit)
                for number, *row in connection.execute(query):
                    ends[rank] = number
                    found.append(_ENTRY_OF[rank](row))
            named = _named(connection, sorted(found, key=lambda one: one.at))
        return named, Cursor(*ends)


def _ends(connection: Connection) -> tuple[int, ...]:
    return tuple(connection.execute(select(func.max(one.c.id))).scalar() or 0 for one in (event, host_event))


def _named(connection: Connection, found: Sequence[LogEntry]) -> tuple[LogEntry, ...]:
    """With the names of the VMs, as their hosts have them now."""
    uuids = sorted({one.domain for one in found if one.domain is not None})
    names: dict[str, str] = {}
    for some in parts(uuids):
        query = select(domain.c.uuid, domain.c.name).where(domain.c.uuid.in_(some))
        names |= {uuid: name for uuid, name in connection.execute(query)}
    return tuple(replace(one, domain_name=names.get(one.domain)) if one.domain else one for one in found)


def _queries(which: LogFilter, by_nova: bool) -> Iterable[tuple[int, Select[Any]]]:
    if which.kind in (None, LEVER):
        query = _common(event, which, ("subject", "lever", "desired", "answer", "reason"))
        if which.domain is not None:
            query = query.where(event.c.subject == which.domain)
        if which.project is not None:
            # Of a project without events, or without VMs, the second condition alone would read all events there are.
            query = query.where(event.c.subject.in_(said_to_belong(which.project, by_nova)))
            query = query.where(told_by_its_host(event.c.host, event.c.subject, which.project, by_nova))
        if which.answers:
            query = query.where(event.c.answer.in_([str(answer) for answer in which.answers]))
        yield 0, query
    if which.kind != LEVER and which.domain is None and which.project is None and not which.answers:
        query = _common(host_event, which, ("kind",))
        yield 1, query if which.kind is None else query.where(host_event.c.kind == which.kind)


def _common(table: Table, which: LogFilter, more: Sequence[str]) -> Select[Any]:
    query = select(*(table.c[name] for name in ("id", "at", "host", "detail", *more)))
    if which.host is not None:
        query = query.where(table.c.host == which.host)
    if which.since is not None:
        query = query.where(table.c.at >= which.since)
    return query


def _older(table: Table, rank: int, after: tuple[float, int, int]) -> Any:
    at, last_rank, number = after
    if rank < last_rank:
        return table.c.at < at
    if rank > last_rank:
        return table.c.at <= at
    # The first half says nothing new: by it, databases begin at that place of the index.
    return and_(table.c.at <= at, or_(table.c.at < at, table.c.id < number))


def _parse(marker: str) -> tuple[float, int, int]:
    try:
        at, rank, number = marker.split(",")
        found = float(at), int(rank), int(number)
    except ValueError:
        raise MarkerError("this marker was not given by this list") from None
    if not 0 <= found[0] < 1e12 or found[1] not in (0, 1) or not 0 <= found[2] < 2**63:
        raise MarkerError("this marker was not given by this list")
    return found


def _lever(row: Sequence[Any]) -> LogEntry:
    at, host, detail, subject, lever, desired, answer, reason = row
    words = read_word(LeverName, lever), desired, read_word(Answer, answer), read_word(Reason, reason)
    return LogEntry(at, LEVER, host, detail, None if subject == HOST else subject, None, *words)


def _host(row: Sequence[Any]) -> LogEntry:
    at, host, detail, kind = row
    return LogEntry(at, kind, host, detail)


_ENTRY_OF = (_lever, _host)
