"""The event log, which keeps what its store does not take at the moment."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING

from memhint.objects.lever import LeverState
from memhint.store.errors import StoreRefused

if TYPE_CHECKING:
    from memhint.agent.parts import Audit

LOG = logging.getLogger(__name__)
MOST = 10_000  # states that wait; the oldest are lost beyond


class RetryingAudit:
    """An Audit in front of another one. What that does not take is told again, in its order and with its time."""

    def __init__(self, audit: Audit, most: int = MOST) -> None:
        self._audit = audit
        self._waiting: deque[tuple[str, float, LeverState]] = deque()
        self._most = most

    def record(self, host: str, at: float, states: Iterable[LeverState]) -> None:
        """Write it down, and before it what waits.

        :raises StoreError: when it waits from now on
        """
        self.queue(host, at, states)
        self._flush()

    def queue(self, host: str, at: float, states: Iterable[LeverState]) -> None:
        """Let it wait for the next time that something is recorded."""
        self._waiting.extend((host, at, one) for one in states)
        lost = len(self._waiting) - self._most
        for _ in range(lost):
            self._waiting.popleft()
        if lost > 0:
            LOG.error("%d events are lost: the store has taken none for long", lost)

    def _flush(self) -> None:
        while self._waiting:
            first_host, first_at, _ = self._waiting[0]
            batch = []
            for one in self._waiting:
                if one[:2] != (first_host, first_at):
                    break
                batch.append(one[2])
            try:
                self._audit.record(first_host, first_at, batch)
            except StoreRefused as error:
                LOG.error("%d events are lost, the store does not take such: %s", len(batch), error)
            for _ in batch:
                self._waiting.popleft()
