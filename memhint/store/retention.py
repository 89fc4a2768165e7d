"""Whether the clock has been where it is for long enough that what is old by it may be deleted.

A clock that jumps, by years where a battery or a time server fails, makes everything old at once. What was recorded
tells: where the history has points from about as long ago as single cycles are kept, and others from lately, time has
passed here at this clock. After a jump of more than a half of that time one of the two is missing, and nothing is
deleted until the recording has gone on for a quarter of it; after one of more than twice that time, for a half.
"""

from __future__ import annotations

from sqlalchemy import Connection, select

from memhint.store.rows.points import FIVE_MINUTES, HOUR, clock_windows
from memhint.store.tables import host_history


def proven(connection: Connection, now: float, keep: float) -> bool:
    """Whether the history of any host goes on from about ``keep`` seconds before ``now`` (unix seconds)."""
    column = host_history.c.bucket
    for begin, end in clock_windows(now, keep):
        point = select(column).where(host_history.c.span.in_((0, FIVE_MINUTES, HOUR)), column.between(begin, end))
        if connection.execute(point.limit(1)).first() is None:
            return False
    return True
