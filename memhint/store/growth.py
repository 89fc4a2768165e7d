"""What hosts tell of how VMs grow, and the growth table that is made of it.

Controllers take turns, and look at one host in each: the one that was looked at longest ago.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sqlalchemy import Connection, delete, func, select, update

from memhint.objects.plan import DemandReason
from memhint.planner.growth import AGES, DAY, LEVELS, GrowthTable, Tally
from memhint.store import codec
from memhint.store.clock import database_clock, goes_on, is_past
from memhint.store.engine import Database
from memhint.store.rows.growth import NO_TABLE, parse_table
from memhint.store.rows.points import HOUR
from memhint.store.tables import domain, domain_history, growth, growth_host, host, host_summary
from memhint.store.upsert import add_new

VMS = 256  # of one host that are looked at: more tell no more than a part of what the fleet does
AGAIN = DAY  # seconds after which a host is looked at again
_AT_ONCE = 32  # VMs in one query: a month of hours is 720 points of each
# Others count in full whatever they use, and with huge pages a VM's footprint tells nothing.
_FORECAST = [str(one) for one in (DemandReason.FORECAST, DemandReason.GROWTH, DemandReason.MINIMUM)]

Point = tuple[float, int, int]  # unix seconds, footprint and memory in bytes, with what QEMU takes


@dataclass(frozen=True, slots=True)
class Turn:
    """A host to look at, and whether it is time for a new table, which would be this ``version``."""

    host: str
    version: int
    due: bool


class Growth:
    """Every method raises StoreError when the database fails."""

    def __init__(self, database: Database, keep: float, clock: Callable[[Connection], float] = database_clock) -> None:
        """:param keep: seconds for which the store has points of VMs."""
        self._database = database
        self.keep = keep
        self._clock = clock

    def begin(self, pause: float, every: float) -> Turn | None:
        """Take the turn for ``pause`` seconds; None where it is not time, or no host is due.

        :param every: seconds between two tables
        """

        def work(connection: Connection) -> Turn | None:
            now = self._clock(connection)
            add_new(connection, growth, NO_TABLE)
            row = connection.execute(select(growth).with_for_update()).one()
            if goes_on(row.turn_until, now, max(pause, HOUR)):
                return None
            connection.execute(update(growth).values(turn_until=now + pause))
            looked = func.coalesce(growth_host.c.looked, 0.0)
            due = select(host.c.name).outerjoin(growth_host, growth_host.c.host == host.c.name)
            due = due.where(host.c.epoch != "", host.c.silent == 0, is_past(looked, now, AGAIN))
            name = connection.execute(due.order_by(looked, host.c.name).limit(1)).scalar()
            if name is None:
                return None
            # One that cannot be looked at does not keep the others waiting.
            add_new(connection, growth_host, {"host": name, "looked": now, "document": "[]"})
            connection.execute(update(growth_host).where(growth_host.c.host == name).values(looked=now))
            # By the clock: a store that was lost does not begin again with versions that agents have.
            return Turn(str(name), max(int(now), row.version + 1), not row.document or not 0 <= now - row.made < every)

        return self._database.transact(work)

    def points(self, name: str) -> dict[str, list[Point]]:
        """The worst of each hour of a host's VMs, oldest first, as far as no other host says that it has them.

        Others may have written points of them before they came here, and none while another host had them. So a VM
        never had more memory than this host says that it has: whoever lies can only make it use more of it.
        """
        other = domain.alias()
        claimed = select(other.c.uuid).where(other.c.uuid == domain.c.uuid, other.c.host != name).exists()
        mine = select(domain.c.uuid, domain.c.assigned).where(
            domain.c.host == name, domain.c.demand_reason.in_(_FORECAST), ~claimed.correlate(domain)
        )
        with self._database.read() as connection:
            own = select(host_summary.c.slot_overhead).where(host_summary.c.name == name)
            overhead = connection.execute(own).scalar() or 0
            has = {uuid: int(size) for uuid, size in connection.execute(mine.order_by(domain.c.uuid).limit(VMS))}
        uuids = list(has)
        found: dict[str, list[Point]] = {uuid: [] for uuid in uuids}
        begin = (domain_history.c.bucket - domain_history.c.bucket % HOUR).label("begin")
        for first in range(0, len(uuids), _AT_ONCE):
            some = domain_history.c.uuid.in_(uuids[first : first + _AT_ONCE])
            query = select(
                domain_history.c.uuid,
                begin,
                func.max(domain_history.c.footprint),
                func.max(domain_history.c.assigned),
            ).where(some, domain_history.c.footprint.is_not(None))
            query = query.group_by(domain_history.c.uuid, begin).order_by(domain_history.c.uuid, begin)
            with self._database.read() as connection:
                for uuid, at, use, assigned in connection.execute(query):
                    most = min(int(assigned), has[uuid]) + overhead
                    found[uuid].append((float(at), int(use), max(most, int(use))))
        return found

    def keep_tally(self, name: str, tally: Tally) -> None:
        """Keep what a host's VMs tell, instead of what they told before."""
        cells = [[*cell, count, total] for cell, (count, total) in sorted(tally.items())]
        with self._database.write() as connection:
            row = growth_host.c.host == name
            connection.execute(update(growth_host).where(row).values(document=codec.dump(cells)))

    def tallies(self) -> list[Tally]:
        """What the hosts tell that are there; of the others it is forgotten."""
        with self._database.write() as connection:
            there = select(host.c.name)
            connection.execute(delete(growth_host).where(growth_host.c.host.not_in(there)))
            documents = list(connection.execute(select(growth_host.c.document)).scalars())
        return [_tally(one) for one in documents]

    def newest(self) -> GrowthTable | None:
        """The table that holds; None where nothing was learnt yet.

        :raises StoreDamaged: when it cannot be read
        """
        with self._database.read() as connection:
            document = connection.execute(select(growth.c.document)).scalar()
        return parse_table(document) if document else None

    def save(self, table: GrowthTable | None) -> None:
        """Make it the one that holds; None: it was looked, and the one that holds stays."""
        with self._database.write() as connection:
            now = self._clock(connection)
            add_new(connection, growth, NO_TABLE)
            values: dict[str, object] = {"made": now}
            if table is not None:
                values |= {"version": table.version, "document": codec.dump(table)}
            connection.execute(update(growth).values(**values))


def _tally(document: str) -> Tally:
    """What a host told; nothing of what a memhint with other cells has kept."""
    found = codec.parse_as(document, list[tuple[int, int, int, int]])
    return {
        (row, column): (count, total)
        for row, column, count, total in found
        if 0 <= row < len(AGES) and 0 <= column < len(LEVELS) and count > 0 and 0 <= total <= 100 * count
    }
