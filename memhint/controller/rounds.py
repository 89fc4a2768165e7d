"""Work that a controller does again and again beside its messages: one round delays nothing else."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from memhint.store.errors import StoreError

LOG = logging.getLogger(__name__)


class Rounds:
    """A thread that does rounds until it is closed."""

    def __init__(self, name: str, work: Callable[[], object], every: float, waits: str) -> None:
        """:param work: one round; raises StoreError
        :param every: seconds between two rounds
        :param waits: what is not done while the store is away, for the log
        """
        self._work = work
        self._every = every
        self._waits = waits
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def close(self) -> None:
        """End. A round that takes longer is left to the next controller."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(5)

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self._work()
            except StoreError as error:
                LOG.error("%s until the store is back: %s", self._waits, error)
            except Exception:
                LOG.exception("a round of %s failed", self._thread.name)
            self._stop.wait(self._every)
