"""Key numbers of each host over time: every cycle for hours, then the worst of each five minutes, then of each hour."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields

from sqlalchemy import Connection, select

from memhint.objects.history import HistoryPoint
from memhint.store.clock import AHEAD, database_clock
from memhint.store.engine import Database
from memhint.store.rows.points import FIVE_MINUTES, HOST_LEAST, HOST_MOST, HOUR, Keep, host_point
from memhint.store.tables import host_history
from memhint.store.thinning import Numbers, drop, thin
from memhint.store.upsert import add_new

_OF_HOSTS = Numbers(host_history, "host", HOST_LEAST, HOST_MOST)


class History:
    """The history of every host in the store. Every method raises StoreError when the database fails."""

    def __init__(self, database: Database, keep: Keep, clock: Callable[[Connection], float] = database_clock) -> None:
        self._database = database
        self.keep = keep
        self._clock = clock

    def add(self, connection: Connection, points: Sequence[tuple[str, HistoryPoint]]) -> None:
        """Add points by host, in the caller's transaction. One that is there already is there once."""
        add_new(connection, host_history, *(host_point(host, point) for host, point in points))

    def of(self, host: str, since: float = 0.0, until: float | None = None) -> tuple[HistoryPoint, ...]:
        """A host's points from ``since`` to ``until`` (unix seconds), oldest first, whatever their length.

        Those of more than a day ahead are not there: whoever told them had a clock that was wrong, or lied.
        """
        columns = [host_history.c[one.name] for one in fields(HistoryPoint)]
        query = select(*columns).where(host_history.c.host == host, host_history.c.at >= since)
        if until is not None:
            query = query.where(host_history.c.at < until)
        with self._database.read() as connection:
            query = query.where(host_history.c.at <= self._clock(connection) + AHEAD)
            return tuple(HistoryPoint(*row) for row in connection.execute(query.order_by(host_history.c.at)))

    def tidy(self, now: float) -> None:
        """Thin out what has grown old by ``now`` (unix seconds). Any number of processes may do it at any time."""
        keep = self.keep
        thin(self._database, _OF_HOSTS, 0, FIVE_MINUTES, now - keep.raw)
        thin(self._database, _OF_HOSTS, FIVE_MINUTES, HOUR, now - keep.before_hours)
        # An hour is its own bucket, and those are indexed.
        drop(self._database, host_history.c.bucket, int(now - keep.hours), host_history.c.span == HOUR)
