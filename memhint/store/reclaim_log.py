"""Requests to reclaim of every host, as the API lists them."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import and_, or_, select

from memhint.objects.reclaim import Reclaim, ReclaimState
from memhint.store import codec
from memhint.store.engine import Database
from memhint.store.errors import MarkerError
from memhint.store.tables import domain, reclaim


@dataclass(frozen=True, slots=True)
class ReclaimFilter:
    """Which; None is any. ``project`` leaves only those to VMs of that project."""

    domain: str | None = None
    host: str | None = None
    state: ReclaimState | None = None
    since: float | None = None
    project: str | None = None


@dataclass(frozen=True, slots=True)
class Placed:
    """A request, and the host that it is for."""

    host: str
    reclaim: Reclaim


class ReclaimLog:
    """All of them."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def one(self, request: str) -> Placed | None:
        """One by its id; None where there is none.

        :raises StoreError: when the database fails, or it cannot be read
        """
        query = select(reclaim.c.host, reclaim.c.document).where(reclaim.c.id == request)
        with self._database.read() as connection:
            row = connection.execute(query).first()
        return None if row is None else Placed(row.host, codec.parse_as(row.document, Reclaim))

    def page(
        self, which: ReclaimFilter, limit: int, marker: str | None = None
    ) -> tuple[tuple[Placed, ...], str | None]:
        """Up to ``limit``, newest first, and the marker of what follows.

        :raises MarkerError: on a marker that this did not give
        :raises StoreError: when the database fails, or one cannot be read
        """
        query = select(reclaim.c.id, reclaim.c.at, reclaim.c.host, reclaim.c.document)
        for column, wanted in (
            (reclaim.c.domain_uuid, which.domain),
            (reclaim.c.host, which.host),
            (reclaim.c.state, which.state),
        ):
            if wanted is not None:
                query = query.where(column == str(wanted))
        if which.since is not None:
            query = query.where(reclaim.c.at >= which.since)
        if which.project is not None:
            query = query.where(
                reclaim.c.domain_uuid.in_(select(domain.c.uuid).where(domain.c.project == which.project))
            )
        if marker is not None:
            at, number = _parse(marker)
            query = query.where(or_(reclaim.c.at < at, and_(reclaim.c.at == at, reclaim.c.id > number)))
        with self._database.read() as connection:
            rows = connection.execute(query.order_by(reclaim.c.at.desc(), reclaim.c.id).limit(limit + 1)).all()
        shown = rows[:limit]
        following = f"{shown[-1].at!r},{shown[-1].id}" if len(rows) > limit else None
        return tuple(Placed(row.host, codec.parse_as(row.document, Reclaim)) for row in shown), following


def _parse(marker: str) -> tuple[float, str]:
    at, _, number = marker.partition(",")
    try:
        found = float(at)
    except ValueError:
        found = -1.0
    if not 0 <= found < 1e12 or not number or len(number) > 36:
        raise MarkerError("this marker was not given by this list")
    return found, number
