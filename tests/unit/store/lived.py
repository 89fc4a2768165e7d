"""A store that was written to for a while, so that its clock is proven."""

from __future__ import annotations

from memhint.objects.history import HistoryPoint
from memhint.store import Store


def lived(store: Store, until: float, keep: float, host: str = "host-z") -> None:
    """Keep a point from as long ago as single cycles are kept, by the clock that shows ``until`` now."""
    with store.database.write() as connection:
        store.history.add(connection, [(host, HistoryPoint(until - keep, 0, 0, 0, 0, 0, 0, 0, None))])
