"""How often what was refused or done, in one process."""

from __future__ import annotations

import threading
from collections.abc import Mapping


class Counts:
    """Counts by name. Any thread may add."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: dict[str, int] = {}

    def add(self, more: Mapping[str, int]) -> None:
        """Add to several at once."""
        with self._lock:
            for name, count in more.items():
                self._counts[name] = self._counts.get(name, 0) + count

    def all(self) -> dict[str, int]:
        """A copy."""
        with self._lock:
            return dict(self._counts)
