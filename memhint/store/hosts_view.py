"""The hosts as lists show them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlalchemy import BigInteger, ColumnElement, Connection, Row, RowMapping, Select, case, not_, select, type_coerce

from memhint.objects.plan import Bound
from memhint.objects.report import STALE_PERIODS
from memhint.objects.summary import HOST_SORT_KEYS, RECLAIMABLE, Freshness, HostSummary
from memhint.objects.tier_sizing import Load
from memhint.objects.words import read_word
from memhint.store import revisions
from memhint.store.clock import database_clock, is_past
from memhint.store.engine import Database
from memhint.store.errors import MarkerError
from memhint.store.pages import Changes, Order, Page
from memhint.store.rows.names import HOST_LOAD
from memhint.store.rows.revisions import HOST
from memhint.store.tables import host_summary, tombstone


class HostsView:
    """A line of each host that ever reported. What is stale is shown as stale: see HostSummary.as_of.

    Every method raises StoreError when the database fails.
    """

    def __init__(self, database: Database, clock: Callable[[Connection], float] = database_clock) -> None:
        self._database = database
        self._clock = clock

    def page(
        self, sort: str = "name", *, descending: bool = False, limit: int = 100, marker: str | None = None
    ) -> Page[HostSummary]:
        """Part of the list, in the order of one of HOST_SORT_KEYS.

        :raises MarkerError: on a marker or an order that there is not
        """
        with self._database.read() as connection:
            now = self._clock(connection)
            order = Order(sort, _sorted_by(sort, now), (host_summary.c.name,), descending)
            rows = connection.execute(order.apply(select(host_summary), marker, limit)).all()
        items = tuple(_summary(row, now) for row in rows[:limit])
        return Page(items, order.marker(rows[limit - 1]) if len(rows) > limit else None)

    def one(self, name: str) -> HostSummary | None:
        """One host; None where there is none."""
        found = self._some(select(host_summary).where(host_summary.c.name == name))
        return found[0] if found else None

    def all(self) -> tuple[HostSummary, ...]:
        """Every host, by name."""
        return self._some(select(host_summary).order_by(host_summary.c.name))

    def token(self) -> str:
        """The token of this moment: what changes from now on is newer."""
        with self._database.read() as connection:
            return str(revisions.newest(connection))

    def changed(self, since: str) -> Changes[HostSummary]:
        """What changed since a token. A host that only grows stale does not change before it is silent: see
        ``grown_stale``.

        :raises ChangesExpired: where that cannot be told any more
        """
        with self._database.read() as connection:
            number = revisions.since(connection, since)
            token = revisions.newest(connection)
            now = self._clock(connection)
            query = select(host_summary).where(host_summary.c.revision > number).order_by(host_summary.c.name)
            items = tuple(_summary(row, now) for row in connection.execute(query))
            gone = select(tombstone.c.name).where(
                tombstone.c.kind == HOST,
                tombstone.c.revision > number,
                tombstone.c.name.not_in(select(host_summary.c.name)),
            )
            deleted = tuple(connection.execute(gone.order_by(tombstone.c.name)).scalars())
        return Changes(items, deleted, str(token))

    def now(self) -> float:
        """This moment on the database's clock."""
        with self._database.read() as connection:
            return self._clock(connection)

    def grown_stale(self, since: float | None) -> tuple[tuple[HostSummary, ...], float]:
        """The hosts that grew stale after a moment and are not called silent, and the moment of this look.

        :param since: on the database's clock; with None or a moment that has not come yet all that are stale now
        """
        with self._database.read() as connection:
            now = self._clock(connection)
            query = select(host_summary).where(host_summary.c.silent == 0, _is_old(now)).order_by(host_summary.c.name)
            if since is not None and since <= now:
                query = query.where(not_(_is_old(since)))
            return tuple(_summary(row, now) for row in connection.execute(query)), now

    def _some(self, query: Select[Any]) -> tuple[HostSummary, ...]:
        with self._database.read() as connection:
            now = self._clock(connection)
            return tuple(_summary(row, now) for row in connection.execute(query))


def _sorted_by(name: str, now: float) -> ColumnElement[Any]:
    if name not in HOST_SORT_KEYS:
        raise MarkerError(f"no list is sorted by {name[:40]!r}: use {', '.join(HOST_SORT_KEYS)}")
    shown = host_summary.c
    if name != "headroom":
        return shown[name]
    old = (shown.silent == 1) | _is_old(now)
    least = case((shown.nominal_headroom < shown.headroom, shown.nominal_headroom), else_=shown.headroom)
    return type_coerce(case((old, case((least < 0, 0), else_=least)), else_=shown.headroom), BigInteger)


def _is_old(now: float) -> ColumnElement[bool]:
    return is_past(host_summary.c.heard, now, STALE_PERIODS * host_summary.c.period)


_SAME = tuple(
    name
    for name in HostSummary.__dataclass_fields__
    if name not in ("state", "bound", "admitting", "reclaimable", "rungs", "load")
)


def _load(found: RowMapping) -> Load | None:
    if found["load_used"] is None:
        return None
    words = {name.removeprefix("load_"): found[name] for name in HOST_LOAD}
    return Load(dram=found["pool"] - found["reserve"], **words)


def _summary(row: Row[Any], now: float) -> HostSummary:
    found = row._mapping
    line = HostSummary(
        **{name: found[name] for name in _SAME},
        state=Freshness.FRESH,
        bound=read_word(Bound, found["bound"]),
        admitting=bool(found["admitting"]),
        reclaimable={str(lever): found[f"reclaimable_{lever}"] for lever in RECLAIMABLE},
        rungs=tuple(found["rungs"].split(",")) if found["rungs"] else (),
        load=_load(found),
    )
    return line.as_of(bool(found["silent"]), now, STALE_PERIODS)
