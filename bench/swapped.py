"""Bytes that a host's guests had written to swap. The machine's own count has those of everybody else in it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from lab.host import Host

EVERY = 0.05  # seconds between two looks


class Swapped:
    """All by which a host's swap was seen to grow. What a guest frees leaves swap again when it is discarded."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._lock = threading.Lock()
        self._last = host.swap_used()
        self._grown = 0

    def total(self) -> int:
        """Bytes until now."""
        with self._lock:
            now = self._host.swap_used()
            self._grown += max(0, now - self._last)
            self._last = now
            return self._grown


@contextmanager
def watched(host: Host) -> Iterator[Swapped]:
    """Count while this lasts."""
    found, ended = Swapped(host), threading.Event()

    def look() -> None:
        while not ended.wait(EVERY):
            found.total()

    thread = threading.Thread(target=look, name="swapped", daemon=True)
    thread.start()
    try:
        yield found
    finally:
        ended.set()
        thread.join()
