"""Whether a node of the broker can be reached, for /healthz. The API sends commands through it and nothing else."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Sequence
from urllib.parse import urlsplit

from memhint.conf.errors import ConfigError

KEEP = 5.0  # seconds for which an answer holds
PATIENCE = 1.0  # seconds that a node has to take a connection
_PORTS = {"amqp": 5672, "amqps": 5671}


class BusWatch:
    """Asks each node until one takes a connection."""

    def __init__(self, urls: Sequence[str], clock: Callable[[], float] = time.monotonic) -> None:
        """:raises ConfigError: when a URL cannot be read"""
        self._nodes = [_node(number, url) for number, url in enumerate(urls, 1)]
        self._clock = clock
        self._lock = threading.Lock()
        self._known: tuple[float, str] | None = None

    def __call__(self) -> str:
        """Off where there is none, else ok or away."""
        if not self._nodes:
            return "off"
        known = self._known
        if known is not None and self._clock() - known[0] <= KEEP:
            return known[1]
        # A name that does not resolve takes many times as long as a connection. One thread waits for that, not all.
        if not self._lock.acquire(timeout=PATIENCE if known is None else 0):
            return "away" if known is None else known[1]
        try:
            newest = self._known
            if newest is None or newest is known:  # else somebody else has looked meanwhile
                found = "ok" if any(map(_reached, self._nodes)) else "away"
                newest = self._known = self._clock(), found
            return newest[1]
        finally:
            self._lock.release()


def _node(number: int, url: str) -> tuple[str, int]:
    try:
        parts = urlsplit(url)
        return parts.hostname or "localhost", parts.port or _PORTS.get(parts.scheme, 5672)
    except ValueError:  # its words, and what it came from, have parts of the password
        wrong = f"URL {number} cannot be read: a port is a number, and %2F, %3F, %23 stand for /, ? and # in a password"
    raise ConfigError(None, "[bus] urls", wrong)


def _reached(node: tuple[str, int]) -> bool:
    try:
        with socket.create_connection(node, timeout=PATIENCE):
            return True
    except OSError:
        return False
