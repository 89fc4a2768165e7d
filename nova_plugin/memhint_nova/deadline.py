"""An end for a whole answer. A timeout of requests starts again with each byte; this hangs up whatever comes."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from typing import Any

from requests.adapters import HTTPAdapter
from urllib3 import connectionpool, poolmanager
from urllib3.connection import HTTPConnection, HTTPSConnection


class Deadline(HTTPAdapter):
    """Connections that can be hung up on. One request at a time."""

    def __init__(self) -> None:
        self._open: list[socket.socket] = []
        super().__init__()

    @contextlib.contextmanager
    def within(self, seconds: float) -> Iterator[threading.Event]:
        """Hang up when what is done in here takes longer; the event says whether that was so."""
        late = threading.Event()

        def end() -> None:
            late.set()
            for one in tuple(self._open):
                # Not SSLSocket's own: that one takes the TLS state away from the thread that reads.
                with contextlib.suppress(OSError):
                    socket.socket.shutdown(one, socket.SHUT_RDWR)

        timer = threading.Timer(seconds, end)
        timer.daemon = True
        timer.start()
        try:
            yield late
        finally:
            timer.cancel()

    def init_poolmanager(self, *words: Any, **more: Any) -> None:
        """The pools of this adapter, of connections that are known to it."""
        super().init_poolmanager(*words, **more)
        plain, secure = _known(HTTPConnection, self._open), _known(HTTPSConnection, self._open)
        self.poolmanager.pool_classes_by_scheme = {
            **poolmanager.pool_classes_by_scheme,
            "http": type("Pool", (connectionpool.HTTPConnectionPool,), {"ConnectionCls": plain}),
            "https": type("Pool", (connectionpool.HTTPSConnectionPool,), {"ConnectionCls": secure}),
        }


def _known(kind: type[Any], found: list[socket.socket]) -> type[Any]:
    class Known(kind):
        def _new_conn(self) -> socket.socket:
            # Known before a handshake over TLS, which may take for ever, too. TLS has the same connection in an
            # object of its own and takes this one's: a second hold on it is what is kept.
            made: socket.socket = super()._new_conn()
            found[:] = [one for one in found if one.fileno() >= 0][-15:]
            found.append(made.dup())
            return made

        def close(self) -> None:
            super().close()
            for one in found:
                one.close()
            found.clear()

    return Known
