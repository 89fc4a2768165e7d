"""The process of the API: listens, serves with a bounded number of threads, and ends when told to."""

from __future__ import annotations

import logging
import signal
import sys
import threading
import time
from collections.abc import Callable
from ssl import SSLError
from types import FrameType
from typing import Any

from oslo_config import cfg

from memhint.api.app import address_of, build, fronted
from memhint.api.connections import TLS, Server
from memhint.api.limits import BODY_MOST
from memhint.conf.errors import ConfigError
from memhint.controller.dispatch import dispatch_of
from memhint.store.database import open_store

LOG = logging.getLogger(__name__)

HEADERS_MOST = 16 * 1024  # bytes of a request's line and headers
PATIENCE = 10  # seconds for which a client may neither send nor take anything
TURN = 0.001  # seconds
_LOOK = 0.2  # seconds between two looks at whether to end
STRANGERS = 32  # threads beside those of [api], so that who has shown no token takes none of them
WAITING_MOST = 512  # connections with a request that no thread has taken up yet


class ApiServer:
    """One process of the API."""

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self._conf = conf
        self._stop = False  # set by a signal, which must wait for no lock

    def run(self) -> int:
        """Serve until told to stop; 0.

        :raises ConfigError: when the configuration does not let it serve
        :raises StoreError: when the store cannot be opened
        """
        # Python lets a thread compute for so long while others wait: with eight at work, each pause of a request would
        # cost it eight times as much.
        sys.setswitchinterval(TURN)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)
        store = open_store(self._conf.store.url, create=False)
        dispatch = dispatch_of(self._conf, store)
        servers: list[Server] = []
        try:
            application = build(self._conf, store, dispatch)
            servers = [self._server(listen, fronted(application, self._conf)) for listen in self._conf.api.listen]
            threads = [threading.Thread(target=one.serve, name="listen", daemon=True) for one in servers]
            for one, listen in zip(servers, self._conf.api.listen, strict=True):
                try:
                    one.prepare()
                except OSError as error:
                    raise ConfigError(None, "[api] listen", f"{listen}: {error}; choose another address") from error
            for thread in threads:
                thread.start()
            for one in servers:
                scheme = "https" if self._conf.api.cert_file else "http"
                host, port = one.bind_addr[:2]
                shown = f"[{host}]" if ":" in host else host
                LOG.info("the API is at %s://%s:%d, auth = %s", scheme, shown, port, self._conf.api.auth)
            while not self._stop:
                time.sleep(_LOOK)
                if not all(thread.is_alive() for thread in threads):
                    raise RuntimeError("a listening thread has ended by itself")
            application.close()
        finally:
            for one in servers:
                one.stop()  # also of those that began before one failed: their threads would keep the process
            dispatch.close()
            store.close()
        return 0

    def _server(self, listen: str, application: Callable[..., Any]) -> Server:
        api = self._conf.api
        server = Server(
            address_of(listen),
            application,
            numthreads=api.threads + api.streams + STRANGERS,  # a stream keeps a thread for as long as it lasts
            server_name="memhint",
            request_queue_size=128,
            timeout=PATIENCE,
            accepted_queue_size=WAITING_MOST,
        )
        server.max_request_body_size = BODY_MOST
        server.max_request_header_size = HEADERS_MOST
        server.error_log = _to_log  # type: ignore[assignment]
        if api.cert_file:
            try:
                server.ssl_adapter = TLS(api.cert_file, api.key_file or api.cert_file)
            except SSLError as error:
                advice = "both are PEM; without key_file, cert_file has the key too"
                raise ConfigError(None, "[api] cert_file, key_file", f"{api.cert_file}: {error}; {advice}") from error
            except OSError as error:
                raise ConfigError(None, "[api] cert_file", f"{api.cert_file}: {error.strerror or error}") from error
        return server

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        self._stop = True


def run(conf: cfg.ConfigOpts) -> int:
    """Serve until told to stop; the process's exit code."""
    return ApiServer(conf).run()


def _to_log(message: str = "", level: int = logging.INFO, traceback: bool = False) -> None:
    """What cheroot says: into the log, not to stderr."""
    LOG.log(level, "%s", " ".join(message.split()), exc_info=traceback)
