"""How long to wait for what a process is to do, on a machine that others use too."""

from __future__ import annotations

import time
from pathlib import Path

NANO = 1_000_000_000


class Patience:
    """Time that a process had, not time that went by: while it waits for a processor the clock stands still.

    So a guest on a machine with forty others gets as much done before it is given up as one that is alone, and one that
    hangs is given up as soon.
    """

    def __init__(self, seconds: float, pid: int, proc: Path = Path("/proc")) -> None:
        self._seconds = seconds
        self._tasks = proc / str(pid) / "task"
        self._began = time.monotonic()
        self._before = self._waited()

    def left(self) -> float:
        """Seconds; none when it is over."""
        now = self._waited()
        # Its threads wait at the same time: the one that waited longest could have been the one that was needed.
        kept = max((waited - self._before.get(task, 0.0) for task, waited in now.items()), default=0.0)
        return max(0.0, self._seconds - (time.monotonic() - self._began - kept))

    def _waited(self) -> dict[str, float]:
        """Seconds that each thread was ready to run and did not; empty where the kernel does not tell."""
        found = {}
        for task in self._tasks.glob("*/schedstat"):
            try:
                found[task.parent.name] = int(task.read_text().split()[1]) / NANO
            except (OSError, IndexError, ValueError):
                continue  # it has just ended
        return found
