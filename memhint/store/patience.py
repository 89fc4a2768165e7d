"""How long a transaction waits for another process that keeps the store, and when a silent server is asked."""

from __future__ import annotations

import time
from collections.abc import Callable

BUSY_SECONDS = 10.0  # that a process waits for another one's transaction, unless it says otherwise
IMPATIENT_SECONDS = 0.1  # the same for the transactions that follow one that waited in vain, for as long as that waited
PROBE_SECONDS, PROBES = 15, 3
"""After which silence, and how often, a database server that owes an answer is asked whether it is still there."""


class Patience:
    """One that waits in vain may be one of many: they must not add up to a cycle without a report."""

    def __init__(self, busy: float = BUSY_SECONDS, clock: Callable[[], float] = time.monotonic) -> None:
        """:param busy: seconds that a transaction waits"""
        self._busy = busy
        self._clock = clock
        self._impatient_until = float("-inf")

    def seconds(self) -> float:
        """For which the next one waits."""
        return IMPATIENT_SECONDS if self._clock() < self._impatient_until else self._busy

    def in_vain(self) -> None:
        """One has waited for nothing."""
        now = self._clock()
        if now >= self._impatient_until:
            self._impatient_until = now + self._busy
