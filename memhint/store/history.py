"""Key numbers of each host over time: every cycle for hours, then the worst of each five minutes, then of each hour."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

from sqlalchemy import Connection, delete, select

from memhint.objects.history import HistoryPoint
from memhint.store.engine import Database
from memhint.store.tables import host_history
from memhint.store.thinning import FIVE_MINUTES, HOUR, thin
from memhint.store.upsert import Row, add_new

TIDY_EVERY = 300.0  # seconds between two looks for what has grown old


@dataclass(frozen=True, slots=True)
class Keep:
    """Seconds for which points of each length are kept."""

    raw: float = 24 * 3600.0
    five_minutes: float = 7 * 86400.0
    hours: float = 365 * 86400.0


_NUMBERS = tuple(one.name for one in fields(HistoryPoint) if one.name not in ("at", "span"))
_LEFT = frozenset({"headroom", "nominal_headroom", "available"})


class History:
    """The history of every host in the store."""

    def __init__(self, database: Database, keep: Keep) -> None:
        self._database = database
        self.keep = keep

    def add(self, connection: Connection, points: Sequence[tuple[str, HistoryPoint]]) -> None:
        """Add points by host, in the caller's transaction. One that is there already is there once."""
        add_new(connection, host_history, *(_row(host, point) for host, point in points))

    def of(self, host: str, since: float = 0.0) -> tuple[HistoryPoint, ...]:
        """A host's points from ``since`` (unix seconds) on, oldest first, whatever their length.

        :raises StoreError: when the database fails
        """
        columns = [host_history.c[one.name] for one in fields(HistoryPoint)]
        query = select(*columns).where(host_history.c.host == host, host_history.c.at >= since)
        with self._database.read() as connection:
            return tuple(HistoryPoint(*row) for row in connection.execute(query.order_by(host_history.c.at)))

    def tidy(self, now: float) -> None:
        """Thin out what has grown old by ``now`` (unix seconds). Any number of processes may do it at any time.

        :raises StoreError: when the database fails
        """
        keep = self.keep
        with self._database.alone() as connection:
            _thin(connection, 0, FIVE_MINUTES, now - keep.raw)
            _thin(connection, FIVE_MINUTES, HOUR, now - keep.five_minutes)
            old = delete(host_history).where(host_history.c.span == HOUR, host_history.c.at < now - keep.hours)
            connection.execute(old)


def _row(host: str, point: HistoryPoint) -> Row:
    row: dict[str, object] = {one.name: getattr(point, one.name) for one in fields(HistoryPoint)}
    return {**row, "host": host, "bucket": int(point.at // FIVE_MINUTES) * FIVE_MINUTES}


def _thin(connection: Connection, fine: int, coarse: int, before: float) -> None:
    most = [name for name in _NUMBERS if name not in _LEFT]
    thin(connection, host_history, "host", least=sorted(_LEFT), most=most, fine=fine, coarse=coarse, before=before)
