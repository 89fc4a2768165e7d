"""Work on many VMs by few threads, until it is done or the time is over."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable
from heapq import heappop, heappush

LOG = logging.getLogger(__name__)
_AGAIN = 0.5  # seconds between two tries with one VM


class ByTurns:
    """A queue of VMs. Each has a turn, and another one where that was in vain, after all that had none yet.

    The threads are daemons: one that hangs is left behind, and keeps no process alive.
    """

    def __init__(
        self, uuids: Iterable[str], work: Callable[[str], bool], until: float, clock: Callable[[], float]
    ) -> None:
        """:param work: one turn; whether there is to be no other one
        :param until: when by ``clock`` the last turn begins, at the latest
        """
        now = clock()
        self._work = work
        self._until = until
        self._clock = clock
        self._lock = threading.Lock()  # guards what follows
        self._waiting = [(now, number, uuid) for number, uuid in enumerate(uuids)]  # a heap; when who may begin
        self._next = len(self._waiting)
        self.begun: set[str] = set()

    def run(self, at_once: int, name: str) -> str:
        """Wait until all is done or the time is over, which is not the end of turns that take longer.

        :returns: why there was no thread at all; empty where there was one
        """
        threads: list[threading.Thread] = []
        trouble, most = "", len(self._waiting)
        for _ in range(at_once):
            if len(threads) == most:
                break
            thread = threading.Thread(target=self._take_turns, name=name, daemon=True)
            try:
                thread.start()
            except RuntimeError as error:  # no host has threads without end
                trouble = str(error)
                continue
            threads.append(thread)
        for thread in threads:
            thread.join(max(0.0, self._until - self._clock()))
        return "" if threads else trouble

    def _take_turns(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    return  # who is at work with one has him again, too
                at, _, uuid = heappop(self._waiting)
            now = self._clock()
            if max(at, now) >= self._until:
                return
            time.sleep(max(0.0, at - now))
            self.begun.add(uuid)
            try:
                done = self._work(uuid)
            except Exception:  # a defect with one must not cost the others the place
                LOG.exception("a turn of %s failed", uuid)
                continue
            if not done:
                with self._lock:
                    heappush(self._waiting, (self._clock() + _AGAIN, self._next, uuid))
                    self._next += 1
