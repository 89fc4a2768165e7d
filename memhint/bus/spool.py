"""What waits for the broker on disk: bounded in number and bytes, the oldest dropped first, and every loss counted."""

from __future__ import annotations

import logging
import secrets
import sqlite3
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

LOG = logging.getLogger(__name__)

_TABLES = """
CREATE TABLE IF NOT EXISTS waiting (number INTEGER PRIMARY KEY AUTOINCREMENT, kind TEXT NOT NULL, text TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS count (name TEXT PRIMARY KEY, value INTEGER NOT NULL);
INSERT OR IGNORE INTO count VALUES ('lost', 0);
"""


@dataclass(frozen=True, slots=True)
class Waiting:
    """One thing that waits."""

    number: int
    kind: str
    text: str


class Spool:
    """A queue in a file of its own. No method raises: a full disk costs what is spooled, never the agent."""

    def __init__(self, path: str | Path, most: int, most_bytes: int) -> None:
        """:param most: things, and ``most_bytes`` of their texts, that may wait."""
        self._path = Path(path)
        self._most = most
        self._most_bytes = most_bytes
        self._lock = threading.Lock()
        self._unkept = 0  # lost while not even the count could be written
        self._mark = 0  # tells this spool from all others; 0: not known yet
        self._database: sqlite3.Connection | None = None
        self._number = self._bytes = self._counted = 0
        with self._lock:
            try:
                self._open()
            except (sqlite3.Error, OSError) as error:
                self._failed(error, 0)

    def put(self, kind: str, text: str) -> None:
        """Add one thing; where there is no room the oldest go."""
        with self._lock:
            try:
                database = self._open()
                with database:
                    database.execute("INSERT INTO waiting (kind, text) VALUES (?, ?)", (kind, text))
                    self._make_room(database, len(text))
                    self._count(database, self._unkept)
                self._counted += self._unkept
                self._unkept = 0
            except (sqlite3.Error, OSError) as error:
                self._failed(error, 1)

    def first(self, most: int) -> tuple[Waiting, ...]:
        """The oldest so many."""
        with self._lock:
            try:
                query = "SELECT number, kind, text FROM waiting ORDER BY number LIMIT ?"
                return tuple(Waiting(*row) for row in self._open().execute(query, (most,)))
            except (sqlite3.Error, OSError) as error:
                self._failed(error, 0)
                return ()

    def remove(self, sent: Sequence[Waiting]) -> bool:
        """Forget what the broker has taken; whether that could be done."""
        with self._lock:
            try:
                database = self._open()
                with database:
                    database.executemany("DELETE FROM waiting WHERE number = ?", [(one.number,) for one in sent])
                self._measure(database)
            except (sqlite3.Error, OSError) as error:
                self._failed(error, 0)  # they are sent twice then, and count once
                return False
        return True

    @property
    def lost(self) -> int:
        """What had no room, since the file was made."""
        with self._lock:
            try:
                found = self._open().execute("SELECT value FROM count WHERE name = 'lost'").fetchone()
                return int(found[0]) + self._unkept
            except (sqlite3.Error, OSError):
                return self._unkept

    @property
    def mark(self) -> str:
        """What tells this spool, and so what it has counted, from one that is made anew; empty while it has none."""
        with self._lock:
            return f"{self._mark:016x}" if self._mark else ""

    def __len__(self) -> int:
        return self._number

    def close(self) -> None:
        """Let go of the file."""
        with self._lock:
            if self._database is not None:
                self._database.close()
                self._database = None

    def _open(self) -> sqlite3.Connection:
        if self._database is not None:
            return self._database
        self._path.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
        database = sqlite3.connect(self._path, check_same_thread=False, timeout=1.0)
        try:
            self._path.chmod(0o640)
            database.execute("PRAGMA journal_mode=WAL")
            database.execute("PRAGMA synchronous=NORMAL")
            database.executescript(_TABLES)
            self._measure(database)
            self._bear_mark(database)
        except BaseException:
            database.close()
            raise
        self._database = database
        return database

    def _bear_mark(self, database: sqlite3.Connection) -> None:
        found = database.execute("SELECT value FROM count WHERE name = 'mark'").fetchone()
        if found is not None:
            self._mark = found[0]
            return
        # A file that replaces a damaged one goes on with what that had counted, and so under its mark.
        mark = self._mark or secrets.randbits(62) + 1
        with suppress(sqlite3.OperationalError):  # no room for it: what waits can be sent nevertheless
            with database:
                database.execute("INSERT INTO count VALUES ('mark', ?)", (mark,))
            self._mark = mark

    @staticmethod
    def _count(database: sqlite3.Connection, lost: int) -> None:
        if lost:
            database.execute("UPDATE count SET value = value + ? WHERE name = 'lost'", (lost,))

    def _measure(self, database: sqlite3.Connection) -> None:
        query = "SELECT COUNT(*), COALESCE(SUM(LENGTH(text)), 0) FROM waiting"
        self._number, self._bytes = database.execute(query).fetchone()
        self._counted = database.execute("SELECT value FROM count WHERE name = 'lost'").fetchone()[0]

    def _make_room(self, database: sqlite3.Connection, added: int) -> None:
        self._number += 1
        self._bytes += added
        lost = 0
        while self._number > self._most or self._bytes > self._most_bytes:
            row = database.execute("SELECT number, LENGTH(text) FROM waiting ORDER BY number LIMIT 1").fetchone()
            if row is None:
                break
            database.execute("DELETE FROM waiting WHERE number = ?", row[:1])
            self._number -= 1
            self._bytes -= row[1]
            lost += 1
        self._count(database, lost)
        self._counted += lost

    def _failed(self, error: Exception, lost: int) -> None:
        damaged = isinstance(error, sqlite3.DatabaseError) and not isinstance(error, sqlite3.OperationalError)
        if damaged:  # what waited goes with the file, and so does what it had counted
            lost += self._number + self._counted
            self._number = self._bytes = self._counted = 0
        self._unkept += lost
        LOG.error("the spool %s cannot be used, %d lost so far: %s", self._path, self._unkept, error)
        if self._database is not None:
            with suppress(sqlite3.Error):
                self._database.close()
            self._database = None
        if damaged:
            with suppress(OSError):  # begin a new one beside it
                self._path.replace(self._path.with_suffix(".damaged"))
