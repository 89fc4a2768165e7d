"""Each VM over time: a point in each step for hours, then the worst of each hour.

Many more VMs than hosts: their points come less often than reports do, and stay less long.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

from sqlalchemy import Connection, select

from memhint.objects.summary import DomainSummary
from memhint.store.engine import Database
from memhint.store.rows.points import DOMAIN_LEAST, DOMAIN_MOST, HOUR, DomainKeep, domain_point
from memhint.store.tables import domain_history
from memhint.store.thinning import Numbers, drop, thin
from memhint.store.upsert import add_many


@dataclass(frozen=True, slots=True)
class DomainPoint:
    """A VM at one moment, or the worst of a span (seconds) that begins there. Bytes; None is unknown."""

    at: float
    assigned: int
    resident: int | None
    footprint: int | None
    demand: int | None
    free: int | None
    reported: int | None
    unreported: int | None
    shared: int | None
    swap: int | None
    span: int = 0


_FIELDS = tuple(one.name for one in fields(DomainPoint))
_OF_DOMAINS = Numbers(domain_history, "uuid", DOMAIN_LEAST, DOMAIN_MOST)


class DomainHistory:
    """The history of every VM in the store. Every method raises StoreError when the database fails."""

    def __init__(self, database: Database, keep: DomainKeep) -> None:
        self._database = database
        self._keep = keep

    def due(self, host: str, before: float | None, at: float) -> bool:
        """Whether a report made at ``at`` is the first of its step. Hosts take turns, so that not all come at once."""
        return self._keep.due(host, before, at)

    def add(self, connection: Connection, summaries: Sequence[DomainSummary]) -> None:
        """Add a point of each, in the caller's transaction. One that is there already is there once."""
        add_many(connection, domain_history, [domain_point(one) for one in summaries])

    def of(self, uuid: str, since: float = 0.0, until: float | None = None) -> tuple[DomainPoint, ...]:
        """A VM's points from ``since`` to ``until`` (unix seconds), oldest first, whatever their length."""
        query = select(*(domain_history.c[name] for name in _FIELDS))
        query = query.where(domain_history.c.uuid == uuid, domain_history.c.at >= since)
        if until is not None:
            query = query.where(domain_history.c.at < until)
        with self._database.read() as connection:
            return tuple(DomainPoint(*row) for row in connection.execute(query.order_by(domain_history.c.at)))

    def tidy(self, now: float) -> None:
        """Thin out what has grown old by ``now`` (unix seconds). Any number of processes may do it at any time."""
        thin(self._database, _OF_DOMAINS, 0, HOUR, now - self._keep.points)
        # An hour is its own bucket, and those are indexed.
        drop(self._database, domain_history.c.bucket, int(now - self._keep.hours), domain_history.c.span == HOUR)
