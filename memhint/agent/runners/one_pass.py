"""One pass of work at a time, on a thread that the cycle does not wait for."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

LOG = logging.getLogger(__name__)


class OnePass:
    """The thread of a worker: begun by the cycle, waited for only while stopping."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._thread: threading.Thread | None = None

    @property
    def under_way(self) -> bool:
        """Whether a pass has begun and not ended."""
        return self._thread is not None and self._thread.is_alive()

    def begin(self, run: Callable[[], None]) -> bool:
        """Begin a pass unless one is under way; whether it has begun."""
        if self.under_way:
            return False
        thread = threading.Thread(target=run, name=self._name, daemon=True)
        try:
            thread.start()
        except RuntimeError as error:  # no host has threads without end
            LOG.warning("a pass of %s is begun later: %s", self._name, error)
            return False
        self._thread = thread
        return True

    def settle(self, timeout: float) -> bool:
        """Wait for the pass under way, ``timeout`` seconds at most; whether none is left."""
        if self._thread is not None:
            self._thread.join(timeout)
        return not self.under_way
