"""Ownership marks: what memhint changed on one host and has to undo."""

from __future__ import annotations

from dataclasses import asdict

from memhint.objects.ownership import Mark
from memhint.store.light.database import Database
from memhint.store.light.rows import upsert

_FIELDS = ", ".join(f'"{name}"' for name in Mark.__dataclass_fields__)
_IS = "host = ? AND subject = ? AND knob = ?"


class Marks:
    """The Ledger of one host. Every method raises StoreError when the database fails."""

    def __init__(self, database: Database, host: str) -> None:
        self._database = database
        self._host = host

    def put(self, new: Mark) -> None:
        """Keep a mark; an older one of the same subject and knob keeps its ``before`` if the instance is the same."""
        query = f'SELECT "before" FROM mark WHERE {_IS} AND instance = ?'
        with self._database.write() as connection:
            older = connection.execute(query, (self._host, new.subject, new.knob, new.instance)).fetchone()
            before = new.before if older is None else older[0]
            upsert(connection, "mark", {**asdict(new), "host": self._host, "before": before})

    def get(self, subject: str, knob: str) -> Mark | None:
        """The mark, or None where memhint owns nothing there."""
        query = f"SELECT {_FIELDS} FROM mark WHERE {_IS}"
        with self._database.read() as connection:
            row = connection.execute(query, (self._host, subject, knob)).fetchone()
        return None if row is None else Mark(*row)

    def remove(self, subject: str, knob: str) -> None:
        """Forget a mark: it was undone, or its instance is gone."""
        with self._database.write() as connection:
            connection.execute(f"DELETE FROM mark WHERE {_IS}", (self._host, subject, knob))

    def of(self, subject: str) -> tuple[Mark, ...]:
        """The marks of one subject, oldest first."""
        return self._found("host = ? AND subject = ?", self._host, subject)

    def all(self) -> tuple[Mark, ...]:
        """Every mark, oldest first."""
        return self._found("host = ?", self._host)

    def _found(self, which: str, *values: str) -> tuple[Mark, ...]:
        query = f"SELECT {_FIELDS} FROM mark WHERE {which} ORDER BY at, subject, knob"
        with self._database.read() as connection:
            return tuple(Mark(*row) for row in connection.execute(query, values))
