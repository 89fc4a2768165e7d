"""A store that was written to for a while, so that its clock is proven."""

from __future__ import annotations

from memhint.objects.history import HistoryPoint
from memhint.store import Store


def lived(store: Store, until: float, keep: float, host: str = "host-z") -> None:
    """Keep a point from as long ago as single cycles are kept, and one from lately, by a clock that shows ``until``."""
    with store.database.write() as connection:
        points = [HistoryPoint(until - ago, 0, 0, 0, 0, 0, 0, 0, None) for ago in (keep, 0.3 * keep)]
        store.history.add(connection, [(host, one) for one in points])
