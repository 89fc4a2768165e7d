"""When memhint last cleared the accessed bits of a process: readers must not take that for idleness."""

from __future__ import annotations

import threading

_MOST = 4096  # processes that are remembered


class Clearings:
    """Moments by pid, of one monotonic clock. Safe on any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._at: dict[int, float] = {}

    def note(self, pid: int, now: float) -> None:
        """All bits of this process are clear now."""
        with self._lock:
            self._at.pop(pid, None)
            self._at[pid] = now
            if len(self._at) > _MOST:
                del self._at[next(iter(self._at))]  # the one that was cleared longest ago

    def last(self, pid: int) -> float:
        """The newest moment; minus infinity for none."""
        with self._lock:
            return self._at.get(pid, float("-inf"))
