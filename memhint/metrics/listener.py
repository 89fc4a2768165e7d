"""A small server for metrics: what Prometheus asks, and nothing else."""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
from typing import Any

from cheroot import server, wsgi
from prometheus_client import CollectorRegistry, make_wsgi_app

LOG = logging.getLogger(__name__)

THREADS = 2  # Prometheus asks once in a while; a client that asks more often waits
PATIENCE = 5  # seconds for which a client may neither send nor take anything
WAITING_MOST = 16  # connections that no thread has taken up yet
WHOLE = 10.0  # seconds for a request and its answer: who sends a byte now and then would keep a thread for hours


class _Connection(server.HTTPConnection):
    """One client's, which has so long for each request, and none once the server ends."""

    def communicate(self) -> bool:
        """Serve one request; whether to keep the connection."""
        if self.server.ending:
            return False
        timer = threading.Timer(WHOLE, self.hang_up)
        timer.daemon = True
        try:
            timer.start()
        except RuntimeError as error:  # the host has no threads to give
            LOG.warning("%s is not served: %s", self.remote_addr, error)
            return False
        self.server.served.add(self)
        try:
            return bool(super().communicate())  # type: ignore[no-untyped-call]
        finally:
            timer.cancel()
            self.server.served.discard(self)

    def hang_up(self) -> None:
        """Have the thread that waits for this client go on with others."""
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)


class _Server(wsgi.Server):
    ConnectionClass = _Connection

    def __init__(self, *words: Any, **more: Any) -> None:
        super().__init__(*words, **more)
        self.served: set[_Connection] = set()
        self.ending = False

    def stop(self) -> None:
        """End at once, whoever is served. cheroot would wait for each of its threads, and for those that queue."""
        self.ending = True
        for one in tuple(self.served):
            one.hang_up()
        super().stop()


class Listener:
    """Serves a registry until it is closed. An address that is taken is logged: metrics end no process."""

    def __init__(self, listen: str, registry: CollectorRegistry) -> None:
        """:param listen: address and port, as [metrics] listen has them."""
        host, _, port = listen.rpartition(":")
        self._server = _Server(
            (host.strip("[]"), int(port)),
            make_wsgi_app(registry),
            numthreads=THREADS,
            server_name="memhint",
            timeout=PATIENCE,
            accepted_queue_size=WAITING_MOST,
        )
        self._server.max_request_body_size = 1
        self._server.max_request_header_size = 8192
        self._server.error_log = _to_log  # type: ignore[assignment]
        self._listen = listen
        self._thread: threading.Thread | None = None

    @property
    def port(self) -> int:
        """The port that it got; 0 where it has none."""
        return int(self._server.bind_addr[1]) if self._thread is not None else 0

    def start(self) -> None:
        """Begin to serve."""
        try:
            self._server.prepare()
        except OSError as error:
            LOG.error("no metrics, [metrics] listen = %s: %s", self._listen, error)
            return
        self._thread = threading.Thread(target=self._server.serve, name="metrics", daemon=True)
        self._thread.start()
        LOG.info("metrics are at http://%s:%d/metrics", self._listen.rpartition(":")[0], self.port)

    def close(self) -> None:
        """End."""
        if self._thread is not None:
            self._server.stop()
            self._thread.join(PATIENCE)
            self._thread = None


def _to_log(message: str = "", level: int = logging.INFO, traceback: bool = False) -> None:
    LOG.log(level, "%s", " ".join(message.split()), exc_info=traceback)
