"""Ownership marks: what memhint changed on one host and has to undo."""

from __future__ import annotations

from sqlalchemy import ColumnElement, and_, delete, select

from memhint.objects.ownership import Mark
from memhint.store.engine import Database
from memhint.store.tables import mark
from memhint.store.upsert import upsert

_FIELDS = tuple(mark.c[name] for name in Mark.__dataclass_fields__)


class Marks:
    """The Ledger of one host, in the store. Every method raises StoreError when the database fails."""

    def __init__(self, database: Database, host: str) -> None:
        self._database = database
        self._host = host

    def put(self, new: Mark) -> None:
        """Keep a mark; an older one of the same subject and knob keeps its ``before`` if the instance is the same."""
        with self._database.write() as connection:
            older = connection.execute(
                select(mark.c.before, mark.c.instance).where(self._is(new.subject, new.knob))
            ).first()
            before = older.before if older is not None and older.instance == new.instance else new.before
            row = {
                "host": self._host,
                "subject": new.subject,
                "knob": new.knob,
                "before": before,
                "after": new.after,
                "instance": new.instance,
                "at": new.at,
            }
            upsert(connection, mark, row)

    def get(self, subject: str, knob: str) -> Mark | None:
        """The mark, or None where memhint owns nothing there."""
        with self._database.read() as connection:
            row = connection.execute(select(*_FIELDS).where(self._is(subject, knob))).first()
        return None if row is None else Mark(*row)

    def remove(self, subject: str, knob: str) -> None:
        """Forget a mark: it was undone, or its instance is gone."""
        with self._database.write() as connection:
            connection.execute(delete(mark).where(self._is(subject, knob)))

    def of(self, subject: str) -> tuple[Mark, ...]:
        """The marks of one subject, oldest first."""
        return self._found(mark.c.subject == subject)

    def all(self) -> tuple[Mark, ...]:
        """Every mark, oldest first."""
        return self._found()

    def _found(self, *which: ColumnElement[bool]) -> tuple[Mark, ...]:
        ours = and_(mark.c.host == self._host, *which)
        query = select(*_FIELDS).where(ours).order_by(mark.c.at, mark.c.subject, mark.c.knob)
        with self._database.read() as connection:
            return tuple(Mark(*row) for row in connection.execute(query))

    def _is(self, subject: str, knob: str) -> ColumnElement[bool]:
        return and_(mark.c.host == self._host, mark.c.subject == subject, mark.c.knob == knob)
