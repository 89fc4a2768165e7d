"""One at a time with each VM."""

from __future__ import annotations

import threading
from collections.abc import Collection


class Turns:
    """A lock per VM. For several threads, and for two agents of one process while the earlier one ends."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._turns: dict[str, threading.Lock] = {}

    def of(self, uuid: str) -> threading.Lock:
        """The lock of one VM."""
        with self._lock:
            return self._turns.setdefault(uuid, threading.Lock())

    def taken(self) -> set[str]:
        """The VMs whose turn somebody has now."""
        with self._lock:
            return {uuid for uuid, turn in self._turns.items() if turn.locked()}

    def retain(self, uuids: Collection[str]) -> None:
        """Forget all other VMs, but those whose turn somebody has."""
        with self._lock:
            self._turns = {uuid: turn for uuid, turn in self._turns.items() if uuid in uuids or turn.locked()}
