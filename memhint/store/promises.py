"""What each host promised in each hour against what came, as controllers judge it by the host's history.

An hour is judged once, by whichever controller is first: nothing is counted, so nothing is counted twice.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, delete, func, select, update

from memhint.objects.promise import HostPromises, KeptPromises, PromisedHour
from memhint.planner.backtest import HOUR
from memhint.store.clock import database_clock, is_past
from memhint.store.engine import Database
from memhint.store.parts import parts
from memhint.store.tables import host, host_summary, promise_host, promise_hour
from memhint.store.upsert import add_new

SHOWN = 10  # of the worst hours


@dataclass(frozen=True, slots=True)
class Due:
    """A host to judge: what it keeps in bytes, and from when on no hour is judged yet, in unix seconds."""

    host: str
    reserve: int
    since: float


class Promises:
    """Every method raises StoreError when the database fails."""

    def __init__(self, database: Database, keep: float, clock: Callable[[Connection], float] = database_clock) -> None:
        """:param keep: seconds for which hours are kept"""
        self._database = database
        self._keep = keep
        self._clock = clock

    def due(self) -> Due | None:
        """The host that was looked at longest ago, if that is an hour ago. What is kept of hosts that are gone goes."""

        def work(connection: Connection) -> Due | None:
            now = self._clock(connection)
            left = select(promise_host.c.host).where(promise_host.c.host.not_in(select(host.c.name)))
            gone = list(connection.execute(left).scalars())
            for some in parts(gone):
                for table in (promise_hour, promise_host):
                    connection.execute(delete(table).where(table.c.host.in_(some)))
            looked = func.coalesce(promise_host.c.looked, 0.0)
            late = select(host_summary.c.name, host_summary.c.reserve, promise_host.c.until)
            late = late.outerjoin(promise_host, promise_host.c.host == host_summary.c.name)
            late = late.join(host, host.c.name == host_summary.c.name).where(is_past(looked, now, HOUR))
            row = connection.execute(late.order_by(looked, host_summary.c.name).limit(1)).first()
            if row is None:
                return None
            # One that cannot be judged does not keep the others waiting.
            add_new(connection, promise_host, {"host": row.name, "looked": 0.0, "until": 0.0})
            mine = (promise_host.c.host == row.name) & is_past(promise_host.c.looked, now, HOUR)
            if not connection.execute(update(promise_host).where(mine).values(looked=now)).rowcount:
                return None  # another controller has it
            return Due(row.name, row.reserve, row.until or 0.0)

        return self._database.transact(work)

    def add(self, name: str, hours: Sequence[PromisedHour], until: float) -> tuple[PromisedHour, ...]:
        """Keep hours of a host, and say which are new. One that was judged already stays as it was.

        :param until: unix seconds up to which there is no more to judge
        """
        rows = [
            {"host": name, "at": int(one.at), "promised": one.promised, "came": one.came, "held": int(one.held)}
            for one in hours
        ]
        with self._database.write() as connection:
            known = select(promise_hour.c.at).where(promise_hour.c.host == name)
            known = known.where(promise_hour.c.at >= min((int(one.at) for one in hours), default=0))
            there = set(connection.execute(known).scalars()) if hours else set()
            # Who looks for hours asks for those of these hosts.
            add_new(connection, promise_host, {"host": name, "looked": 0.0, "until": 0.0})
            add_new(connection, promise_hour, *rows)
            connection.execute(update(promise_host).where(promise_host.c.host == name).values(until=until))
            if rows:  # time has passed on the host, too: a clock that jumped makes nothing old
                old = promise_hour.c.at < int(until - self._keep)
                connection.execute(delete(promise_hour).where(promise_hour.c.host == name, old))
        return tuple(one for one in hours if int(one.at) not in there)

    def of(self, name: str) -> KeptPromises | None:
        """How a host kept its promises; None where no hour was judged."""
        mine = promise_hour.c.host == name
        table = promise_hour
        sums = select(func.count(), func.sum(table.c.held), func.min(table.c.at)).where(mine)
        worst = select(table.c.at, table.c.promised, table.c.came).where(mine)
        worst = worst.order_by(table.c.came - table.c.promised, table.c.at.desc()).limit(SHOWN)
        with self._database.read() as connection:
            hours, held, since = connection.execute(sums).one()
            if not hours:
                return None
            found = tuple(PromisedHour(float(at), promised, came) for at, promised, came in connection.execute(worst))
        return KeptPromises(hours, int(held), float(since), found)

    def since(self, at: float) -> tuple[HostPromises, ...]:
        """Every host of which hours were judged that began at ``at`` (unix seconds) or later, by name.

        How long that takes depends on these hours, and not on those before.
        """
        table = promise_hour
        lacked = func.max(table.c.promised - table.c.came)
        sums = select(table.c.host, func.count(), func.sum(table.c.held), lacked)
        sums = sums.where(table.c.at >= math.ceil(at)).group_by(table.c.host).order_by(table.c.host)
        with self._database.read() as connection:
            # By host and moment, as the primary key has them: by moment alone every hour that is kept would be read.
            names = connection.execute(select(promise_host.c.host).order_by(promise_host.c.host)).scalars().all()
            found = [row for some in parts(names) for row in connection.execute(sums.where(table.c.host.in_(some)))]
        return tuple(HostPromises(name, hours, int(held), max(0, int(most))) for name, hours, held, most in found)
