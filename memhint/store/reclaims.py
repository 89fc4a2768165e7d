"""Requests to reclaim, each in one row from its making to its end."""

from __future__ import annotations

from sqlalchemy import Connection, delete, insert, select, update

from memhint.objects.reclaim import Reclaim, ReclaimError, ReclaimState
from memhint.store import codec
from memhint.store.engine import Database
from memhint.store.errors import StoreDamaged
from memhint.store.tables import reclaim

_OPEN = tuple(str(state) for state in ReclaimState if not state.ended)
_ENDED = tuple(str(state) for state in ReclaimState if state.ended)


class Reclaims:
    """The requests of one host in the store. ``keep`` is the seconds for which those that ended stay."""

    def __init__(self, database: Database, host: str, keep: float) -> None:
        self._database = database
        self._host = host
        self._keep = keep

    def add(self, new: Reclaim) -> None:
        """Queue a request, and drop those that ended too long ago.

        :raises ReclaimError: on one that no guest could be asked
        :raises StoreError: when the database fails
        """
        request = new.request.check()
        row = {"id": request.id, "host": self._host, "domain_uuid": request.uuid, "at": request.at}
        with self._database.write() as connection:
            self._prune(connection, request.at)
            connection.execute(insert(reclaim).values(row | _changing(new)))

    def save(self, changed: Reclaim) -> bool:
        """Keep how far a request has come. One that has ended stays as it ended: then this is False.

        :raises StoreError: when the database fails
        """
        row = update(reclaim).where(reclaim.c.id == changed.request.id, reclaim.c.state.in_(_OPEN))
        with self._database.write() as connection:
            return connection.execute(row.values(_changing(changed))).rowcount == 1

    def get(self, request: str) -> Reclaim | None:
        """One request by its id; None where there is none.

        :raises StoreDamaged: when it cannot be read
        :raises StoreError: when the database fails
        """
        with self._database.read() as connection:
            document = connection.execute(select(reclaim.c.document).where(reclaim.c.id == request)).scalar()
        return None if document is None else _parse(document)

    def open(self) -> tuple[Reclaim, ...]:
        """Those of this host that have not ended, oldest first.

        :raises StoreDamaged: when one cannot be read
        :raises StoreError: when the database fails
        """
        query = select(reclaim.c.document).where(reclaim.c.host == self._host, reclaim.c.state.in_(_OPEN))
        with self._database.read() as connection:
            documents = connection.execute(query.order_by(reclaim.c.at, reclaim.c.id)).scalars().all()
        return tuple(_parse(one) for one in documents)

    def newest(self, limit: int = 100, uuid: str | None = None) -> tuple[Reclaim, ...]:
        """The newest requests of this host, newest first, to one VM or to all.

        :raises StoreDamaged: when one cannot be read
        :raises StoreError: when the database fails
        """
        query = select(reclaim.c.document).where(reclaim.c.host == self._host)
        if uuid is not None:
            query = query.where(reclaim.c.domain_uuid == uuid)
        with self._database.read() as connection:
            query = query.order_by(reclaim.c.at.desc(), reclaim.c.id).limit(limit)
            return tuple(_parse(one) for one in connection.execute(query).scalars().all())

    def _prune(self, connection: Connection, now: float) -> None:
        old = delete(reclaim).where(reclaim.c.host == self._host, reclaim.c.at < now - self._keep)
        connection.execute(old.where(reclaim.c.state.in_(_ENDED)))


def _changing(one: Reclaim) -> dict[str, object]:
    return {"state": str(one.state), "document": codec.dump(one)}


def _parse(document: str) -> Reclaim:
    found = codec.parse_as(document, Reclaim)
    try:
        found.request.check()
    except ReclaimError as error:
        raise StoreDamaged(f"a stored request is of another version or damaged: {error}") from error
    return found
