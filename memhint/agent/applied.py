"""What was done between two reports: a lever may have been pulled again before the next report shows it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from memhint.objects.lever import LeverState
from memhint.objects.verdict import Answer

MOST = 1000  # that wait for a cycle; there is one each few seconds


class Applied:
    """Takes every outcome from the workers' threads, and keeps those by which something was changed."""

    def __init__(self, wall: Callable[[], float] = time.time) -> None:
        self._wall = wall
        self._lock = threading.Lock()
        self._kept: list[tuple[float, LeverState]] = []

    def note(self, state: LeverState) -> None:
        """Keep it if it changed something. Safe on any thread."""
        if state.verdict.answer is Answer.APPLIED:
            with self._lock:
                self._kept = [*self._kept[-MOST + 1 :], (self._wall(), state)]

    def take(self) -> list[tuple[float, LeverState]]:
        """What was kept since the last time, oldest first, and when it was done (unix seconds)."""
        with self._lock:
            kept, self._kept = self._kept, []
        return kept
