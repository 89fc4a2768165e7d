"""The record of every pull."""

from __future__ import annotations

from collections.abc import Iterable

from memhint.objects.event import Event
from memhint.objects.lever import LeverState
from memhint.store.light.aging import proven
from memhint.store.light.database import Database
from memhint.store.light.rows import add_new
from memhint.store.rows.events import event_row


class Events:
    """``keep`` is the seconds for which they stay."""

    def __init__(self, database: Database, keep: float) -> None:
        self._database = database
        self._keep = keep

    def record(self, host: str, at: float, states: Iterable[LeverState]) -> None:
        """Add pulls, and drop the host's events that are too old by now, where the clock can be trusted.

        :raises StoreError: when the database fails
        """
        rows = [event_row(Event(at, host, one.subject, one.lever, one.desired, one.verdict)) for one in states]
        if not rows:
            return
        with self._database.write() as connection:
            add_new(connection, "event", *rows)
            if proven(connection, at, self._keep):
                connection.execute("DELETE FROM event WHERE host = ? AND at < ?", (host, at - self._keep))
