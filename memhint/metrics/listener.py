"""A small server for metrics: what Prometheus asks, and nothing else."""

from __future__ import annotations

import logging
import threading

from cheroot import wsgi
from prometheus_client import CollectorRegistry, make_wsgi_app

LOG = logging.getLogger(__name__)

THREADS = 2  # Prometheus asks once in a while; a client that asks more often waits
PATIENCE = 5  # seconds for which a client may neither send nor take anything
WAITING_MOST = 16  # connections that no thread has taken up yet


class Listener:
    """Serves a registry until it is closed. An address that is taken is logged: metrics end no process."""

    def __init__(self, listen: str, registry: CollectorRegistry) -> None:
        """:param listen: address and port, as [metrics] listen has them."""
        host, _, port = listen.rpartition(":")
        self._server = wsgi.Server(
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
