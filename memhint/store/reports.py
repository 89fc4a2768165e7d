"""The newest report of each host."""

from __future__ import annotations

from sqlalchemy import select

from memhint.objects.history import point_of
from memhint.objects.report import Report
from memhint.store import codec, revisions
from memhint.store.engine import Database
from memhint.store.history import History
from memhint.store.policies import forget_gone
from memhint.store.retention import proven
from memhint.store.rows.lines import Seen
from memhint.store.rows.points import TIDY_EVERY
from memhint.store.summaries import Summaries
from memhint.store.tables import report
from memhint.store.upsert import upsert


class Reports:
    """Reports in the store. Every method raises StoreError when the database fails."""

    def __init__(self, database: Database, history: History, summaries: Summaries) -> None:
        self._database = database
        self._history = history
        self._summaries = summaries
        self._tidied: float | None = None

    def save(self, new: Report) -> None:
        """Make this the host's newest report and add its key numbers to the history, all or nothing."""
        row = {
            "host": new.host,
            "epoch": new.epoch,
            "sequence": new.sequence,
            "at": new.at,
            "document": codec.dump(new),
        }
        with self._database.write() as connection:
            upsert(connection, report, row)
            self._history.add(connection, [(new.host, point_of(new))])
            self._summaries.write(connection, [Seen(new, new.at)], new.at)
        if self._tidied is None or abs(new.at - self._tidied) >= TIDY_EVERY:
            self._tidied = new.at
            with self._database.write() as connection:
                revisions.tidy(connection, new.at)
                trusted = proven(connection, new.at, self._history.keep.raw)
            if trusted:
                self._history.tidy(new.at)
                with self._database.alone() as connection:
                    forget_gone(connection, new.at)
                self._summaries.tidy(new.at)

    def newest(self, host: str | None = None) -> Report | None:
        """The newest report of a host, or of all; None where there is none.

        :raises StoreDamaged: when it cannot be read
        """
        query = select(report.c.document).order_by(report.c.at.desc()).limit(1)
        if host is not None:
            query = query.where(report.c.host == host)
        with self._database.read() as connection:
            document = connection.execute(query).scalar()
        return None if document is None else codec.parse(document)

    def last_epoch(self, host: str) -> str | None:
        """The life of the agent that made the newest report of a host; None where there is none."""
        with self._database.read() as connection:
            return connection.execute(select(report.c.epoch).where(report.c.host == host)).scalar()

    def hosts(self) -> tuple[str, ...]:
        """Every host that has a report, by name."""
        with self._database.read() as connection:
            return tuple(connection.execute(select(report.c.host).order_by(report.c.host)).scalars())
