"""The record of every pull: what was wished, of whom, and what became of it."""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import Connection, delete

from memhint.objects.event import Event
from memhint.objects.lever import LeverState
from memhint.store.engine import Database
from memhint.store.retention import proven
from memhint.store.rows.events import event_row
from memhint.store.tables import event
from memhint.store.thinning import drop
from memhint.store.upsert import add_new


class Events:
    """Events in the store. ``keep`` is the seconds for which they stay.

    Every method raises StoreError when the database fails.
    """

    def __init__(self, database: Database, keep: float) -> None:
        self._database = database
        self._keep = keep

    def record(self, host: str, at: float, states: Iterable[LeverState]) -> None:
        """Add pulls, and drop the host's events that are too old by now, where the clock can be trusted."""
        rows = [event_row(Event(at, host, one.subject, one.lever, one.desired, one.verdict)) for one in states]
        if not rows:
            return
        with self._database.write() as connection:
            add_new(connection, event, *rows)
            if proven(connection, at, self._keep):
                connection.execute(delete(event).where(event.c.host == host, event.c.at < at - self._keep))

    def add(self, connection: Connection, events: Iterable[Event]) -> None:
        """Add pulls of any hosts, in the caller's transaction. One that is there already is there once."""
        add_new(connection, event, *map(event_row, events))

    def tidy(self, now: float) -> None:
        """Drop what is too old by ``now`` (unix seconds), of every host."""
        drop(self._database, event.c.at, now - self._keep)
