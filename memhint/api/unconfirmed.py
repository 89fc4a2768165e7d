"""Tokens that Keystone has not confirmed lately: how often it is asked for one client, and how often at once.

Each such token is a question to Keystone, and keeps a thread until that answers. Without a bound, whoever sends
invented tokens has every other service of the cloud wait, too.
"""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable

from memhint.api.limits import CLIENTS_MOST, AtOnce, Buckets

AT_ONCE_WAIT = 1.0  # seconds after which to come back, where too many are asked for at once


class Unconfirmed:
    """One per process, for any number of threads."""

    def __init__(
        self, buckets: Buckets, at_once: AtOnce, holds: float, clock: Callable[[], float], most: int = CLIENTS_MOST
    ) -> None:
        """:param holds: seconds for which a token that was confirmed may be asked for as often as it likes"""
        self._buckets = buckets
        self._at_once = at_once
        self._holds = holds
        self._clock = clock
        self._most = most
        self._lock = threading.Lock()
        self._confirmed: OrderedDict[bytes, float] = OrderedDict()  # by hash: until when; the oldest first

    def ask(self, client: str, token: str) -> Question | float:
        """A question to Keystone, to be ended; or the seconds until this client may have one asked."""
        mark = hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()
        with self._lock:
            if self._confirmed.get(mark, 0.0) > self._clock():
                return Question()
        if not self._at_once.begin(client):
            return AT_ONCE_WAIT
        wait = self._buckets.take(client)
        if wait:
            self._at_once.end(client)
            return wait

        def end(confirmed: bool) -> None:
            self._at_once.end(client)
            if confirmed:
                self._confirm(mark)

        return Question(end)

    def _confirm(self, mark: bytes) -> None:
        with self._lock:
            self._confirmed.pop(mark, None)
            self._confirmed[mark] = self._clock() + self._holds
            if len(self._confirmed) > self._most:
                self._confirmed.popitem(last=False)


class Question:
    """One that Keystone is asked; what its answer was is told once, and later words change nothing."""

    def __init__(self, end: Callable[[bool], None] = lambda _: None) -> None:
        self._end: Callable[[bool], None] | None = end

    def end(self, confirmed: bool = False) -> None:
        """It is answered, or nobody waits for the answer any more."""
        end, self._end = self._end, None
        if end is not None:
            end(confirmed)
