"""Requests to reclaim, each in one row from its making to its end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import Connection, Select, delete, func, insert, select, update

from memhint.objects.reclaim import Reclaim, ReclaimState, Stop, released
from memhint.objects.verdict import Answer, Reason, Verdict
from memhint.store.engine import Database
from memhint.store.instances import followed, told_by_its_host
from memhint.store.parts import AT_ONCE, parts
from memhint.store.retention import proven
from memhint.store.rows.reclaims import ENDED, OPEN, changing, if_readable, parse_reclaim, readable, reclaim_row
from memhint.store.tables import reclaim
from memhint.store.upsert import add_new, upsert

_STAGES = (ReclaimState.QUEUED, ReclaimState.RUNNING, ReclaimState.HOLDING)
PRESUMED = "controller"  # the owner of what is said to have ended because its host says nothing
_GRACE = 60.0  # seconds beyond a request's own times until that is said
MOST_OPEN = 1000  # requests of one host that have not ended: those beyond are not taken from its records
_TOLD = 100  # requests of which a host is told with one report
_LATE = 600.0  # as _GRACE, of a request that has begun: its agent tells of it when it is back


@dataclass(frozen=True, slots=True)
class HostReclaim:
    """A request, on which host it is, and why it shall end, where somebody took it back."""

    host: str
    reclaim: Reclaim
    interrupted: str | None


@dataclass(frozen=True, slots=True)
class ReclaimPage:
    """Part of the list; ``last`` is the moment and id of its last one where others follow, which may be unreadable."""

    items: tuple[HostReclaim, ...]
    last: tuple[float, str] | None


class Reclaims:
    """The requests of one host in the store, or of all where ``host`` is empty.

    ``keep`` is the seconds for which those that ended stay.
    Every method raises StoreError when the database fails.
    """

    def __init__(self, database: Database, host: str, keep: float) -> None:
        self._database = database
        self._host = host
        self._keep = keep

    def add(self, new: Reclaim, host: str | None = None) -> None:
        """Queue a request, and drop those that ended too long ago.

        :param host: which one's, where that is not the store's own
        :raises ReclaimError: on one that no guest could be asked
        """
        with self._database.write() as connection:
            self._prune(connection, new.request.at)
            connection.execute(insert(reclaim).values(reclaim_row(self._host if host is None else host, new)))

    def add_once(self, new: Reclaim) -> None:
        """Queue a request, unless it is there already, in whatever state.

        :raises ReclaimError: on one that no guest could be asked
        """
        with self._database.write() as connection:
            self._prune(connection, new.request.at)
            add_new(connection, reclaim, reclaim_row(self._host, new))

    def interrupt(self, request: str, why: str) -> None:
        """Note that a request shall end, where it has not; the agent that has begun it looks for that."""
        row = update(reclaim).where(reclaim.c.id == request, reclaim.c.state.in_(OPEN), reclaim.c.interrupted.is_(None))
        with self._database.write() as connection:
            connection.execute(row.values(interrupted=why.replace("\0", "")[:200]))

    def interrupted(self) -> dict[str, str]:
        """Why requests of this host that have not ended shall end, by id."""
        query = select(reclaim.c.id, reclaim.c.interrupted)
        query = query.where(reclaim.c.host == self._host, reclaim.c.state.in_(OPEN))
        with self._database.read() as connection:
            rows = connection.execute(query.where(reclaim.c.interrupted.is_not(None))).all()
        return {row.id: str(row.interrupted) for row in rows}

    def page(
        self,
        *,
        limit: int = 100,
        before: tuple[float, str] | None = None,
        uuid: str | None = None,
        host: str | None = None,
        state: ReclaimState | None = None,
        since: float | None = None,
        project: str | None = None,
    ) -> ReclaimPage:
        """Requests, newest first. One that cannot be read is passed over, and its part of the list is shorter.

        :param before: moment and id of the last one that is known
        :param since: made at this moment or later, in unix seconds
        :param project: to VMs of this project, on the hosts that have them now
        """
        query = self._listed()
        for column, wanted in ((reclaim.c.domain_uuid, uuid), (reclaim.c.host, host), (reclaim.c.state, state)):
            if wanted is not None:
                query = query.where(column == str(wanted))
        if since is not None:
            query = query.where(reclaim.c.at >= since)
        if before is not None:
            at, name = before
            query = query.where((reclaim.c.at < at) | ((reclaim.c.at == at) & (reclaim.c.id > name)))
        with self._database.read() as connection:
            if project is not None:
                by_nova = followed(connection)
                query = query.where(told_by_its_host(reclaim.c.host, reclaim.c.domain_uuid, project, by_nova))
            rows = connection.execute(query.order_by(reclaim.c.at.desc(), reclaim.c.id).limit(limit + 1)).all()
        found = tuple(
            HostReclaim(row.host, one, row.interrupted)
            for row in rows[:limit]
            if (one := if_readable(row.id, row.document)) is not None
        )
        # By the columns: the last one's document may be what cannot be read.
        return ReclaimPage(found, (rows[limit - 1].at, rows[limit - 1].id) if len(rows) > limit else None)

    def find(self, request: str) -> HostReclaim | None:
        """One request by its id, with its host; None where there is none.

        :raises StoreDamaged: when it cannot be read
        """
        with self._database.read() as connection:
            row = connection.execute(self._listed().where(reclaim.c.id == request)).first()
        return None if row is None else HostReclaim(row.host, parse_reclaim(row.document), row.interrupted)

    def waiting(self, hosts: Sequence[str]) -> tuple[HostReclaim, ...]:
        """What these hosts should have been told of: requests that wait, and those that were taken back.

        Of each host the oldest hundred: the others follow when these have begun or ended. One that cannot be read is
        passed over.
        """
        mine = reclaim.c.host.in_(list(hosts)) & reclaim.c.state.in_(OPEN)
        waits = (reclaim.c.state == str(ReclaimState.QUEUED)) | reclaim.c.interrupted.is_not(None)
        number = func.row_number().over(partition_by=reclaim.c.host, order_by=(reclaim.c.at, reclaim.c.id))
        first = select(reclaim.c.id, number.label("turn")).where(mine, waits).subquery()
        query = select(reclaim.c.id, reclaim.c.host, reclaim.c.document, reclaim.c.interrupted)
        query = query.join(first, first.c.id == reclaim.c.id).where(first.c.turn <= _TOLD)
        with self._database.read() as connection:
            rows = connection.execute(query.order_by(reclaim.c.at, reclaim.c.id)).all()
        return tuple(
            HostReclaim(host, one, interrupted)
            for name, host, document, interrupted in rows
            if (one := if_readable(name, document)) is not None
        )

    def record(self, connection: Connection, told: Iterable[tuple[str, Reclaim]]) -> Counter[str]:
        """Take what agents say of requests, by host, in the caller's transaction, in whatever order it comes.

        What has ended stays as it ended, and nothing goes back. No host speaks of another's requests. Of a host that
        has ``MOST_OPEN`` that have not ended, no other one is taken that has not: how many so were left out, by host.
        """
        by_id: dict[str, list[tuple[str, Reclaim]]] = {}
        for host, one in told:
            by_id.setdefault(one.request.id, []).append((host, one))
        if not by_id:
            return Counter()
        there: dict[str, tuple[str, str]] = {}
        for names in parts(sorted(by_id)):
            query = select(reclaim.c.id, reclaim.c.host, reclaim.c.document).where(reclaim.c.id.in_(names))
            there |= {row.id: (row.host, row.document) for row in connection.execute(query.with_for_update())}
        rows = []
        opened: dict[str, list[Reclaim]] = {}
        for name, news in sorted(by_id.items()):
            place, document = there.get(name, (news[0][0], None))
            before = now = None if document is None else if_readable(name, document)
            if document is not None and before is None:
                continue  # nobody can say how far it is: it goes when its time has come, and keeps nothing else back
            for host, one in news:
                if host == place and (now is None or _place(one) > _place(now)):
                    # The request is as it was asked for: the agent's copy counts by the agent's clock.
                    now = one if before is None else replace(one, request=before.request)
            if now is None or now == before:
                continue
            if before is None and not now.state.ended:
                opened.setdefault(place, []).append(now)
            else:
                rows.append(reclaim_row(place, now))
        left_out: Counter[str] = Counter()
        for host, ones in opened.items():
            room = self._room(connection, host)
            ones.sort(key=lambda one: (one.request.at, one.request.id))
            rows += [reclaim_row(host, one) for one in ones[:room]]
            left_out[host] += len(ones[room:])
        upsert(connection, reclaim, *rows)
        return +left_out

    @staticmethod
    def _room(connection: Connection, host: str) -> int:
        there = select(func.count()).where(reclaim.c.host == host, reclaim.c.state.in_(OPEN))
        return max(0, MOST_OPEN - int(connection.execute(there).scalar_one()))

    def due(self, connection: Connection, now: float, after: str = "") -> tuple[list[str], str | None]:
        """Some hundred that follow ``after`` and may have to be presumed; the last of them, None if no more follow.

        :param now: unix seconds on the database's clock
        """
        over = reclaim.c.state.in_(OPEN) & (reclaim.c.at < now - _GRACE) & (reclaim.c.id > after)
        query = select(reclaim.c.id).where(over).order_by(reclaim.c.id).limit(AT_ONCE)
        names = list(connection.execute(query).scalars())
        return names, names[-1] if len(names) == AT_ONCE else None

    def presume(self, connection: Connection, now: float, names: Sequence[str]) -> None:
        """End those of some hundred of which no agent will tell any more, in the caller's transaction.

        If one does, that counts.

        :param now: unix seconds on the database's clock
        """
        mine = reclaim.c.id.in_(names) & reclaim.c.state.in_(OPEN)
        query = select(reclaim.c.id, reclaim.c.host, reclaim.c.document).where(mine).order_by(reclaim.c.id)
        rows = []
        for name, host, document in connection.execute(query.with_for_update()).all():
            if (one := if_readable(name, document)) is None:
                _fail(connection, name, document)
                continue
            last = one.request.expires + _GRACE
            if one.state is not ReclaimState.QUEUED:
                last = one.request.expires + one.request.timeout + one.request.hold + _LATE
            if now > last:
                rows.append(reclaim_row(host, _presumed(one, now)))
        upsert(connection, reclaim, *rows)

    def tidy(self, connection: Connection, now: float) -> None:
        """Drop those of every host that ended too long ago, in the caller's transaction."""
        connection.execute(delete(reclaim).where(reclaim.c.at < now - self._keep, reclaim.c.state.in_(ENDED)))

    def save(self, changed: Reclaim) -> bool:
        """Keep how far a request has come. One that has ended stays as it ended: then this is False."""
        row = update(reclaim).where(reclaim.c.id == changed.request.id, reclaim.c.state.in_(OPEN))
        with self._database.write() as connection:
            return connection.execute(row.values(changing(changed))).rowcount == 1

    def get(self, request: str) -> Reclaim | None:
        """One request by its id; None where there is none.

        :raises StoreDamaged: when it cannot be read
        """
        with self._database.read() as connection:
            document = connection.execute(select(reclaim.c.document).where(reclaim.c.id == request)).scalar()
        return None if document is None else parse_reclaim(document)

    def open(self) -> tuple[Reclaim, ...]:
        """Those of this host that have not ended, oldest first. One that cannot be read ends as failed."""
        query = select(reclaim.c.id, reclaim.c.document)
        query = query.where(reclaim.c.host == self._host, reclaim.c.state.in_(OPEN))
        with self._database.read() as connection:
            rows = connection.execute(query.order_by(reclaim.c.at, reclaim.c.id)).all()
        found, damaged = readable((row.id, row.document) for row in rows)
        if damaged:
            with self._database.write() as connection:
                for name, document in damaged:
                    _fail(connection, name, document)
        return tuple(found)

    def newest(self, limit: int = 100) -> tuple[Reclaim, ...]:
        """The newest requests of this host, newest first, without those that cannot be read."""
        query = select(reclaim.c.id, reclaim.c.document)
        if self._host:
            query = query.where(reclaim.c.host == self._host)
        with self._database.read() as connection:
            query = query.order_by(reclaim.c.at.desc(), reclaim.c.id).limit(limit)
            return tuple(readable((row.id, row.document) for row in connection.execute(query))[0])

    def _listed(self) -> Select[Any]:
        query = select(*(reclaim.c[name] for name in ("id", "at", "host", "document", "interrupted")))
        return query.where(reclaim.c.host == self._host) if self._host else query

    def _prune(self, connection: Connection, now: float) -> None:
        if not proven(connection, now, self._keep):
            return
        old = delete(reclaim).where(reclaim.c.host == self._host, reclaim.c.at < now - self._keep)
        connection.execute(old.where(reclaim.c.state.in_(ENDED)))


def _fail(connection: Connection, request: str, document: str) -> None:
    """End one whose document cannot be read."""
    row = update(reclaim).where(reclaim.c.id == request, reclaim.c.document == document, reclaim.c.state.in_(OPEN))
    connection.execute(row.values(state=str(ReclaimState.FAILED)))


def _place(one: Reclaim) -> tuple[int, int, int]:
    """How far it has come: what has a larger one came later."""
    if one.state.ended:
        return (len(_STAGES) if one.owner == PRESUMED else len(_STAGES) + 1, 0, 0)
    stage = one.state if one.state.known else ReclaimState.RUNNING  # a newer agent's: it began and has not ended
    return (_STAGES.index(stage), one.calls, one.reclaimed + (one.held.again if one.held else 0))


def _presumed(one: Reclaim, now: float) -> Reclaim:
    if one.state is ReclaimState.QUEUED:
        verdict = Verdict(Answer.FAILED, Reason.EXPIRED, "its host did not say that it began within its time to live")
        return replace(one, state=ReclaimState.EXPIRED, verdict=verdict, owner=PRESUMED, ended=now)
    if one.state is ReclaimState.HOLDING:
        why = "its host has said nothing of it since it began to hold"
        return replace(released(one, Stop.LOST, now, Reason.INTERRUPTED, why), owner=PRESUMED)
    verdict = Verdict(Answer.FAILED, Reason.INTERRUPTED, "its host has said nothing of it since it began")
    return replace(one, state=ReclaimState.FAILED, verdict=verdict, owner=PRESUMED, stop=Stop.LOST, ended=now)
