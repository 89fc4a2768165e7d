"""The newest report of each host, and the key numbers of those before it."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, delete, insert, select

from memhint.objects.report import Report
from memhint.store import codec
from memhint.store.engine import Database
from memhint.store.tables import history, report
from memhint.store.upsert import upsert


@dataclass(frozen=True, slots=True)
class HistoryPoint:
    """A host's key numbers at one moment. Bytes; ``at`` in unix seconds, ``psi`` in percent, None where unknown."""

    at: float
    headroom: int
    nominal_headroom: int
    assigned: int
    footprint: int
    resident: int
    available: int
    swap_used: int
    psi: float | None


class Reports:
    """Reports in the store. ``keep`` is the seconds of history that stay."""

    def __init__(self, database: Database, keep: float) -> None:
        self._database = database
        self._keep = keep

    def save(self, new: Report) -> None:
        """Make this the host's newest report and add its key numbers to the history, both or neither.

        :raises StoreError: when the database fails
        """
        document = codec.dump(new)
        with self._database.write() as connection:
            row = {
                "host": new.host,
                "epoch": new.epoch,
                "sequence": new.sequence,
                "at": new.at,
                "document": document,
            }
            upsert(connection, report, row)
            connection.execute(insert(history).values(_key_numbers(new)))
            self._prune(connection, new)

    def newest(self, host: str | None = None) -> Report | None:
        """The newest report of a host, or of all; None where there is none.

        :raises StoreDamaged: when it cannot be read
        :raises StoreError: when the database fails
        """
        query = select(report.c.document).order_by(report.c.at.desc()).limit(1)
        if host is not None:
            query = query.where(report.c.host == host)
        with self._database.read() as connection:
            document = connection.execute(query).scalar()
        return None if document is None else codec.parse(document)

    def hosts(self) -> tuple[str, ...]:
        """Every host that has a report, by name.

        :raises StoreError: when the database fails
        """
        with self._database.read() as connection:
            return tuple(connection.execute(select(report.c.host).order_by(report.c.host)).scalars())

    def history(self, host: str, since: float = 0.0) -> tuple[HistoryPoint, ...]:
        """A host's key numbers from ``since`` (unix seconds) on, oldest first.

        :raises StoreError: when the database fails
        """
        columns = [history.c[name] for name in HistoryPoint.__dataclass_fields__]
        query = select(*columns).where(history.c.host == host, history.c.at >= since).order_by(history.c.at)
        with self._database.read() as connection:
            return tuple(HistoryPoint(*row) for row in connection.execute(query))

    def _prune(self, connection: Connection, new: Report) -> None:
        connection.execute(delete(history).where(history.c.host == new.host, history.c.at < new.at - self._keep))


def _key_numbers(new: Report) -> dict[str, object]:
    capacity, memory, pressure = new.plan.capacity, new.observation.memory, new.observation.pressure
    return {
        "host": new.host,
        "at": new.at,
        "headroom": capacity.headroom,
        "nominal_headroom": capacity.nominal_headroom(),
        "assigned": capacity.assigned,
        "footprint": capacity.footprint,
        "resident": capacity.resident,
        "available": memory.available,
        "swap_used": memory.swap_used,
        "psi": pressure.some_avg10 if pressure else None,
    }
