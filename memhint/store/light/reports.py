"""The newest report of a host, the lines that lists show of it, and its histories."""

from __future__ import annotations

import sqlite3

from memhint.objects.history import point_of
from memhint.objects.report import Report
from memhint.objects.summary import domain_summaries
from memhint.store import codec
from memhint.store.light import revisions
from memhint.store.light.aging import proven, thin
from memhint.store.light.database import Database
from memhint.store.light.policies import forget_gone
from memhint.store.light.rows import add_new, places, upsert
from memhint.store.rows.lines import Seen, domain_line, fingerprint, host_line
from memhint.store.rows.points import (
    DOMAIN_LEAST,
    DOMAIN_MOST,
    FIVE_MINUTES,
    HOST_LEAST,
    HOST_MOST,
    HOUR,
    TIDY_EVERY,
    DomainKeep,
    Keep,
    domain_point,
    host_point,
)
from memhint.store.rows.revisions import DOMAIN, grave


class Reports:
    """Every method raises StoreError when the database fails."""

    def __init__(self, database: Database, keep: Keep, domain_keep: DomainKeep) -> None:
        self._database = database
        self._keep = keep
        self._domain_keep = domain_keep
        self._tidied: float | None = None

    def save(self, new: Report) -> None:
        """Make this the host's newest report and add its key numbers to the history, all or nothing."""
        row = {"host": new.host, "epoch": new.epoch, "sequence": new.sequence, "at": new.at}
        document = codec.dump(new)
        with self._database.write() as connection:
            upsert(connection, "report", {**row, "document": document})
            add_new(connection, "host_history", host_point(new.host, point_of(new)))
            self._write_lines(connection, new)
        if self._tidied is None or abs(new.at - self._tidied) >= TIDY_EVERY:
            self._tidied = new.at
            self._tidy(new.at)

    def newest(self, host: str) -> Report | None:
        """The newest report of a host; None where there is none.

        :raises StoreDamaged: when it cannot be read
        """
        with self._database.read() as connection:
            row = connection.execute("SELECT document FROM report WHERE host = ?", (host,)).fetchone()
        return None if row is None else codec.parse(row[0])

    def hosts(self) -> tuple[str, ...]:
        """Every host that has a report, by name."""
        with self._database.read() as connection:
            return tuple(name for (name,) in connection.execute("SELECT host FROM report ORDER BY host"))

    def last_epoch(self, host: str) -> str | None:
        """The life of the agent that made the newest report of a host; None where there is none."""
        with self._database.read() as connection:
            row = connection.execute("SELECT epoch FROM report WHERE host = ?", (host,)).fetchone()
        return None if row is None else str(row[0])

    def _write_lines(self, connection: sqlite3.Connection, new: Report) -> None:
        host, now = new.host, new.at
        before = connection.execute("SELECT at FROM host_summary WHERE name = ?", (host,)).fetchone()
        there = dict(connection.execute("SELECT uuid, fingerprint FROM domain WHERE host = ?", (host,)))
        lines = {line.uuid: line for line in domain_summaries(new)}  # each once, whatever a report says
        if self._domain_keep.due(host, None if before is None else before[0], now):
            add_new(connection, "domain_history", *map(domain_point, lines.values()))
        rows = [(line, fingerprint(line)) for line in lines.values()]
        changed = [domain_line(*row) for row in rows if there.pop(row[0].uuid, None) != row[1]]
        number = revisions.take(connection, now)
        upsert(connection, "host_summary", {**host_line(Seen(new, now)), "revision": number})
        upsert(connection, "domain", *({**row, "revision": number} for row in changed))
        gone = tuple(there)
        connection.execute(f"DELETE FROM domain WHERE host = ? AND uuid IN {places(gone)}", (host, *gone))
        upsert(connection, "tombstone", *(grave(DOMAIN, uuid, number, now) for uuid in gone))

    def _tidy(self, now: float) -> None:
        with self._database.write() as connection:
            revisions.tidy(connection, now)
            trusted = proven(connection, now, self._keep.raw)
        if not trusted:
            return
        keep, domains = self._keep, self._domain_keep
        with self._database.write() as connection:
            for fine, coarse, seconds in ((0, FIVE_MINUTES, keep.raw), (FIVE_MINUTES, HOUR, keep.before_hours)):
                worst = {"least": HOST_LEAST, "most": HOST_MOST}
                thin(connection, "host_history", "host", **worst, fine=fine, coarse=coarse, before=now - seconds)
            connection.execute("DELETE FROM host_history WHERE span = ? AND bucket < ?", (HOUR, int(now - keep.hours)))
        with self._database.write() as connection:
            forget_gone(connection, now)
        with self._database.write() as connection:
            worst = {"least": DOMAIN_LEAST, "most": DOMAIN_MOST}
            thin(connection, "domain_history", "uuid", **worst, fine=0, coarse=HOUR, before=now - domains.points)
            connection.execute(
                "DELETE FROM domain_history WHERE span = ? AND bucket < ?", (HOUR, int(now - domains.hours))
            )
