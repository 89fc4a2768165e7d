"""Requests to reclaim, each in one row from its making to its end."""

from __future__ import annotations

import sqlite3

from memhint.objects.reclaim import Reclaim, ReclaimState
from memhint.store.light.aging import proven
from memhint.store.light.database import Database
from memhint.store.light.rows import add, add_new, places
from memhint.store.rows.reclaims import ENDED, OPEN, changing, parse_reclaim, readable, reclaim_row

_OPEN = f"state IN {places(OPEN)}"


class Reclaims:
    """The requests of one host. Every method raises StoreError when the database fails.

    ``keep`` is the seconds for which those that ended stay.
    """

    def __init__(self, database: Database, host: str, keep: float) -> None:
        self._database = database
        self._host = host
        self._keep = keep

    def add(self, new: Reclaim) -> None:
        """Queue a request, and drop those that ended too long ago.

        :raises ReclaimError: on one that no guest could be asked
        :raises StoreRefused: where there is one of its id
        """
        row = reclaim_row(self._host, new)
        with self._database.write() as connection:
            self._prune(connection, new.request.at)
            add(connection, "reclaim", row)

    def add_once(self, new: Reclaim) -> None:
        """Queue a request, unless it is there already; drop those that ended too long ago.

        :raises ReclaimError: on one that no guest could be asked
        """
        row = reclaim_row(self._host, new)
        with self._database.write() as connection:
            self._prune(connection, new.request.at)
            add_new(connection, "reclaim", row)

    def interrupt(self, request: str, why: str) -> None:
        """Note that a request shall end, where it has not; the agent that has begun it looks for that."""
        note = f"UPDATE reclaim SET interrupted = ? WHERE id = ? AND {_OPEN} AND interrupted IS NULL"
        with self._database.write() as connection:
            connection.execute(note, (why.replace("\0", "")[:200], request, *OPEN))

    def interrupted(self) -> dict[str, str]:
        """Why requests of this host that have not ended shall end, by id."""
        query = f"SELECT id, interrupted FROM reclaim WHERE host = ? AND {_OPEN} AND interrupted IS NOT NULL"
        with self._database.read() as connection:
            return {name: str(why) for name, why in connection.execute(query, (self._host, *OPEN))}

    def save(self, changed: Reclaim) -> bool:
        """Keep how far a request has come. One that has ended stays as it ended: then this is False."""
        values = changing(changed)
        settings = ", ".join(f"{name} = ?" for name in values)
        keep = f"UPDATE reclaim SET {settings} WHERE id = ? AND {_OPEN}"
        with self._database.write() as connection:
            return connection.execute(keep, (*values.values(), changed.request.id, *OPEN)).rowcount == 1

    def get(self, request: str) -> Reclaim | None:
        """One request by its id; None where there is none.

        :raises StoreDamaged: when it cannot be read
        """
        with self._database.read() as connection:
            row = connection.execute("SELECT document FROM reclaim WHERE id = ?", (request,)).fetchone()
        return None if row is None else parse_reclaim(row[0])

    def open(self) -> tuple[Reclaim, ...]:
        """Those of this host that have not ended, oldest first. One that cannot be read ends as failed."""
        query = f"SELECT id, document FROM reclaim WHERE host = ? AND {_OPEN} ORDER BY at, id"
        with self._database.read() as connection:
            found, damaged = readable(connection.execute(query, (self._host, *OPEN)).fetchall())
        if damaged:
            end = f"UPDATE reclaim SET state = ? WHERE id = ? AND document = ? AND {_OPEN}"
            with self._database.write() as connection:
                for name, document in damaged:
                    connection.execute(end, (str(ReclaimState.FAILED), name, document, *OPEN))
        return tuple(found)

    def newest(self, limit: int = 100) -> tuple[Reclaim, ...]:
        """The newest requests of this host, newest first, without those that cannot be read."""
        query = "SELECT id, document FROM reclaim WHERE host = ? ORDER BY at DESC, id LIMIT ?"
        with self._database.read() as connection:
            rows = connection.execute(query, (self._host, limit)).fetchall()
        return tuple(readable(rows)[0])

    def _prune(self, connection: sqlite3.Connection, now: float) -> None:
        if proven(connection, now, self._keep):
            old = f"DELETE FROM reclaim WHERE host = ? AND at < ? AND state IN {places(ENDED)}"
            connection.execute(old, (self._host, now - self._keep, *ENDED))
