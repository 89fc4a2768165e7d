"""The key numbers of all hosts together, over time."""

from __future__ import annotations

from typing import Any

from sqlalchemy import BigInteger, Select, Subquery, cast, func, select

from memhint.objects.history import HistoryPoint
from memhint.store.clock import AHEAD, database_clock
from memhint.store.engine import Database
from memhint.store.tables import host_history

STEP = 300  # seconds of one point, unless something else is asked for
_LEAST = ("headroom", "nominal_headroom", "available")
_MOST = ("assigned", "footprint", "resident", "swap_used")


class FleetHistory:
    """Sums over the hosts in the store. Every method raises StoreError when the database fails."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def of(self, since: float, until: float | None, step: int) -> tuple[HistoryPoint, ...]:
        """A point for each ``step`` seconds from ``since`` on (unix seconds), oldest first.

        Each host counts with its worst of that time: the least of what is left, the most of what is used. ``psi`` is
        the worst of any host. A host that told nothing in that time is not in the sums; where only hours are left of
        it, it is in those of the steps at which they begin. What lies more than a day ahead is in none.
        """
        table = host_history
        whole = cast(table.c.at, BigInteger)
        begin = (whole - whole % step).label("begin")
        worst = [
            *(func.min(table.c[name]).label(name) for name in _LEAST),
            *(func.max(table.c[name]).label(name) for name in (*_MOST, "psi", "span")),
        ]
        query = select(begin, *worst).where(table.c.at >= since)
        if until is not None:
            query = query.where(table.c.at < until)
        with self._database.read() as connection:
            query = query.where(table.c.at <= database_clock(connection) + AHEAD)
            rows = connection.execute(_summed(query.group_by(begin, table.c.host).subquery())).mappings().all()
        return tuple(
            HistoryPoint(
                at=float(row["begin"]),
                **{name: int(row[name]) for name in (*_LEAST, *_MOST)},
                psi=row["psi"],
                span=max(step, row["span"]),
            )
            for row in rows
        )


def _summed(of_host: Subquery) -> Select[Any]:
    sums = [cast(func.sum(of_host.c[name]), BigInteger).label(name) for name in (*_LEAST, *_MOST)]
    columns = [of_host.c.begin, *sums, func.max(of_host.c.psi).label("psi"), func.max(of_host.c.span).label("span")]
    return select(*columns).group_by(of_host.c.begin).order_by(of_host.c.begin)
