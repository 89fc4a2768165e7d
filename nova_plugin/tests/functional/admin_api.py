"""An admin API over a real socket, with as much of it as the plugin uses: changes, deletions, ETags."""

from __future__ import annotations

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit


class AdminApi:
    """Serves the hosts that it is told of. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._hosts: dict[str, dict[str, Any]] = {}
        self._revisions: dict[str, int] = {}
        self._revision = 1
        self.asked: list[str] = []
        api = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                status, etag, body = api._answer(self.path, self.headers.get("If-None-Match"))
                self.send_response(status)
                self.send_header("ETag", etag)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *args):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.address = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Away."""
        self._server.shutdown()
        self._server.server_close()

    def tell(self, name: str, **fields: Any) -> tuple[str, int]:
        """A new report of a host; what is not said stays. Gives its epoch and sequence."""
        with self._lock:
            self._revision += 1
            before = self._hosts.get(name, {"name": name, "epoch": "e1", "sequence": 0})
            after = {**before, "at": time.time(), **fields, "sequence": before["sequence"] + 1}
            self._hosts[name] = after
            self._revisions[name] = self._revision
            return after["epoch"], after["sequence"]

    def _answer(self, path: str, known: str | None) -> tuple[int, str, bytes]:
        query = parse_qs(urlsplit(path).query)
        since = int(query["changed_since"][0]) if "changed_since" in query else 0
        fields = query["fields"][0].split(",")
        with self._lock:
            self.asked.append(path)
            hosts = [
                {field: host[field] for field in fields}
                for name, host in self._hosts.items()
                if self._revisions[name] > since
            ]
            etag = f'"{since}-{self._revision}"'
            if known == etag:
                return 304, etag, b""
            return 200, etag, json.dumps({"hosts": hosts, "deleted": [], "changed": str(self._revision)}).encode()
