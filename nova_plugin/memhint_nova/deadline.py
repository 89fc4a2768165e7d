"""An end for a whole answer. A timeout of requests starts again with each byte; this hangs up whatever comes."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from typing import Any

from requests.adapters import HTTPAdapter


class Deadline(HTTPAdapter):
    """Connections that can be hung up on. One request at a time."""

    def __init__(self) -> None:
        self._open: list[socket.socket] = []
        self._closed: list[socket.socket] = []  # of them: by urllib3, which may read on
        super().__init__()

    @contextlib.contextmanager
    def within(self, seconds: float) -> Iterator[threading.Event]:
        """Hang up when what is done in here takes longer; the event says whether that was so."""
        late = threading.Event()

        def end() -> None:
            late.set()
            for one in tuple(self._open):
                # Each is plain: an SSLSocket's shutdown would take the TLS state away from the thread that reads. And
                # it is asked itself, not the class: of eventlet's sockets only each by itself has this method.
                with contextlib.suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)

        timer = threading.Timer(seconds, end)
        timer.daemon = True
        timer.start()
        try:
            yield late
        finally:
            timer.cancel()
            while self._closed:
                one = self._closed.pop()
                one.close()
                with contextlib.suppress(ValueError):  # let go of already, as one of too many
                    self._open.remove(one)

    def init_poolmanager(self, *words: Any, **more: Any) -> None:
        """The pools of this adapter, of connections that are known to it."""
        super().init_poolmanager(*words, **more)
        self._know(self.poolmanager)

    def proxy_manager_for(self, proxy: str, **more: Any) -> Any:
        """The pools of connections to a proxy, such as the environment names: these are known, too."""
        new = proxy not in self.proxy_manager
        manager = super().proxy_manager_for(proxy, **more)
        if new:
            self._know(manager)
        return manager

    def _know(self, manager: Any) -> None:
        manager.pool_classes_by_scheme = {
            scheme: type("Pool", (pool,), {"ConnectionCls": _known(pool.ConnectionCls, self._open, self._closed)})
            for scheme, pool in manager.pool_classes_by_scheme.items()
        }


def _known(kind: type[Any], found: list[socket.socket], closed: list[socket.socket]) -> type[Any]:
    class Known(kind):
        _hold: socket.socket | None = None

        def _new_conn(self) -> socket.socket:
            # Known before a handshake over TLS, which may take for ever, too. TLS has the same connection in an
            # object of its own and takes this one's: a second hold on it is what is kept.
            made: socket.socket = super()._new_conn()
            self._hold = made.dup()
            found[:] = [one for one in found if one.fileno() >= 0][-15:]
            found.append(self._hold)
            return made

        def close(self) -> None:
            # Of an answer with "Connection: close" this comes before its body is read.
            super().close()
            if self._hold is not None:
                closed.append(self._hold)
                self._hold = None

    return Known
