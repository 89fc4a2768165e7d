"""What must not be lost of a cycle: its point in the history, and its new verdicts."""

from __future__ import annotations

from dataclasses import dataclass

from memhint.objects.event import Event
from memhint.objects.history import HistoryPoint
from memhint.objects.reclaim import Reclaim


@dataclass(frozen=True, slots=True)
class Record:
    """Some of a host's history and events. Each is known by its host and moment, so that none counts twice."""

    points: tuple[HistoryPoint, ...]
    events: tuple[Event, ...]
    lost: int = 0  # of all, since the host's spool was made: what had no room in it
    reclaims: tuple[Reclaim, ...] = ()  # how far requests have come
    spool: str = ""  # the spool that ``lost`` is of; empty of an agent that does not tell
