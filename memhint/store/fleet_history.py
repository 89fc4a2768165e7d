"""The key numbers of all hosts together, over time."""

from __future__ import annotations

import math
from typing import Any

from sqlalchemy import BigInteger, Connection, Select, Subquery, cast, func, select

from memhint.objects.history import HistoryPoint
from memhint.store.clock import AHEAD, database_clock
from memhint.store.engine import Database
from memhint.store.rows.points import FIVE_MINUTES, HOUR
from memhint.store.tables import host_history, host_summary

STEP = 300  # seconds of one point, unless something else is asked for
_LONGEST = STEP / 2
"""Seconds of a host's period that a point's length follows: who says more makes points no longer than usual."""
_LEAST = ("headroom", "nominal_headroom", "available")
_MOST = ("assigned", "footprint", "resident", "swap_used")


class FleetHistory:
    """Sums over the hosts in the store. Every method raises StoreError when the database fails."""

    def __init__(self, database: Database, settle: float = 0.0) -> None:
        """:param settle: seconds within which all hosts have told what they looked at; 0 where there is one only"""
        self._database = database
        self._settle = settle

    def of(self, since: float, until: float | None, step: int) -> tuple[HistoryPoint, ...]:
        """A point for each ``step`` seconds from ``since`` on (unix seconds), oldest first.

        Each host counts with its worst of that time: the least of what is left, the most of what is used. ``psi`` is
        the worst of any host. A host that told nothing in that time is not in the sums; where only hours are left of
        it, it is in those of the steps at which they begin. What lies more than a day ahead is in none.

        A step is never shorter than two periods of the hosts that report, and one that began within ``settle`` is left
        out: else the sum would be of those hosts only that have told already.
        """
        with self._database.read() as connection:
            now = database_clock(connection)
            step = max(step, math.ceil(2 * self._longest(connection)))
            rows = connection.execute(_worst(since, until, now, step)).mappings().all()
        return tuple(
            HistoryPoint(
                at=float(row["begin"]),
                **{name: int(row[name]) for name in (*_LEAST, *_MOST)},
                psi=row["psi"],
                span=max(step, row["span"]),
            )
            for row in rows
            if not self._settle or row["begin"] <= now - self._settle
        )

    def _longest(self, connection: Connection) -> float:
        """Seconds of the longest period of a host that reports; 0 where there is one host at the most."""
        query = select(func.count(), func.max(host_summary.c.period)).where(host_summary.c.silent == 0)
        hosts, longest = connection.execute(query).one()
        return min(float(longest), _LONGEST) if hosts > 1 else 0.0


def _worst(since: float, until: float | None, now: float, step: int) -> Select[Any]:
    table = host_history
    whole = cast(table.c.at, BigInteger)
    begin = (whole - whole % step).label("begin")
    worst = [
        *(func.min(table.c[name]).label(name) for name in _LEAST),
        *(func.max(table.c[name]).label(name) for name in (*_MOST, "psi", "span")),
    ]
    # A point's bucket, which there is an index of, begins an hour before it at most.
    young = table.c.span.in_((0, FIVE_MINUTES, HOUR)) & (table.c.bucket > int(since) - HOUR - 1)
    query = select(begin, *worst).where(young, table.c.at >= since, table.c.at <= now + AHEAD)
    if until is not None:
        query = query.where(table.c.at < until)
    return _summed(query.group_by(begin, table.c.host).subquery())


def _summed(of_host: Subquery) -> Select[Any]:
    sums = [cast(func.sum(of_host.c[name]), BigInteger).label(name) for name in (*_LEAST, *_MOST)]
    columns = [of_host.c.begin, *sums, func.max(of_host.c.psi).label("psi"), func.max(of_host.c.span).label("span")]
    return select(*columns).group_by(of_host.c.begin).order_by(of_host.c.begin)
