"""The running backtest: whether a host could have given, in each hour, what it promised as the hour began. Pure.

It asks nothing of the model that made the promise: what came is what the kernel said was available.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby, takewhile

from memhint.objects.history import HistoryPoint
from memhint.objects.promise import PromisedHour

HOUR = 3600.0
LATE = 600.0  # seconds into an hour after which a first point says nothing of what was promised as it began


def judged(points: Iterable[HistoryPoint], reserve: int) -> tuple[PromisedHour, ...]:
    """What was promised as each hour began, and what came in it.

    At any moment of it a host could give what is available less its reserve, less what VMs have in swap: that may come
    back. Had all been given that was promised as the hour began, there would have to be as much. It is judged until a
    VM comes: what of the promise that takes, and how much is still owed to it, is not known.

    Hours of which the beginning was not seen, or no more than one moment, are not judged, nor are points of an hour.

    :param points: oldest first
    :param reserve: bytes that the host keeps
    """
    found = []
    for hour, group in groupby(points, key=lambda one: one.at // HOUR):
        seen = _until_one_comes([one for one in group if one.span < HOUR])
        if len(seen) > 1 and seen[0].at - hour * HOUR <= LATE:
            found.append(_judged(hour * HOUR, seen, reserve))
    return tuple(found)


def _until_one_comes(points: Sequence[HistoryPoint]) -> Sequence[HistoryPoint]:
    return list(takewhile(lambda one: one.assigned <= points[0].assigned, points))


def _judged(at: float, seen: Sequence[HistoryPoint], reserve: int) -> PromisedHour:
    came = min(one.available - reserve - max(0, one.footprint - one.resident) for one in seen)
    return PromisedHour(at, seen[0].headroom, came)
