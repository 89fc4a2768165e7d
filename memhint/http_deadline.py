"""An end for a whole answer. A timeout of requests starts again with each byte; this hangs up, whatever still comes."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from typing import Any

import requests
from requests.adapters import HTTPAdapter
from urllib3 import connectionpool, poolmanager
from urllib3.connection import HTTPConnection, HTTPSConnection


class Deadline(HTTPAdapter):
    """Connections that can be hung up on, for any number of threads."""

    def __init__(self) -> None:
        self._watches = _Watches()
        super().__init__()

    @contextlib.contextmanager
    def within(self, seconds: float) -> Iterator[threading.Event]:
        """Hang up when what this thread asks in here takes longer; the event says whether that was so."""
        watch = self._watches.now = _Watch()
        timer = threading.Timer(seconds, watch.end)
        timer.daemon = True
        timer.start()
        try:
            yield watch.late
        finally:
            timer.cancel()
            self._watches.now = None
            watch.close()

    def init_poolmanager(self, *words: Any, **more: Any) -> None:
        """The pools of this adapter, of connections that can be watched."""
        super().init_poolmanager(*words, **more)
        plain, secure = _watched(HTTPConnection, self._watches), _watched(HTTPSConnection, self._watches)
        self.poolmanager.pool_classes_by_scheme = {
            **poolmanager.pool_classes_by_scheme,
            "http": type("Pool", (connectionpool.HTTPConnectionPool,), {"ConnectionCls": plain}),
            "https": type("Pool", (connectionpool.HTTPSConnectionPool,), {"ConnectionCls": secure}),
        }


def watched_session() -> tuple[requests.Session, Deadline]:
    """A session whose requests can all be hung up on, and what does it."""
    session, deadline = requests.Session(), Deadline()
    for scheme in ("http://", "https://"):
        session.mount(scheme, deadline)
    return session, deadline


class _Watch:
    """The connections of what one thread asks. Second holds on them: urllib3 may close its own before all is read."""

    def __init__(self) -> None:
        self.late = threading.Event()
        self._open: list[socket.socket] = []
        self._lock = threading.Lock()

    def add(self, one: socket.socket) -> None:
        """A connection that is used now."""
        with self._lock:
            with contextlib.suppress(OSError):  # closed meanwhile
                self._open.append(one.dup())
            if self.late.is_set():
                self._hang_up()

    def end(self) -> None:
        """It takes too long."""
        with self._lock:
            self.late.set()
            self._hang_up()

    def close(self) -> None:
        """It is over, whatever came of it."""
        with self._lock:
            for one in self._open:
                one.close()
            self._open.clear()

    def _hang_up(self) -> None:
        for one in self._open:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)


class _Watches(threading.local):
    now: _Watch | None = None


def _watched(kind: type[Any], watches: _Watches) -> type[Any]:
    class Watched(kind):  # type: ignore[misc]
        _plain: socket.socket | None = None  # what is beneath TLS, where that is

        def _new_conn(self) -> socket.socket:
            # Before a handshake over TLS, which may take for ever, too, and takes this socket's place.
            made: socket.socket = super()._new_conn()
            self._plain = made.dup()
            if watches.now is not None:
                watches.now.add(made)
            return made

        def request(self, *words: Any, **more: Any) -> None:
            if self._plain is not None and watches.now is not None:  # a connection of an earlier request
                watches.now.add(self._plain)
            super().request(*words, **more)

        def close(self) -> None:
            super().close()
            if self._plain is not None:
                self._plain.close()
                self._plain = None

    return Watched
