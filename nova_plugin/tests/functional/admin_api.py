"""An admin API in a process of its own, with as much of it as the plugin uses: changes, deletions, ETags.

Of its own, for Nova's tests may run under eventlet, where a server within the same process would stop the others.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit


class AdminApi:
    """Serves the hosts that it is told of."""

    def __init__(self, delay: float = 0.0) -> None:
        """:param delay: seconds before each answer."""
        self._directory = tempfile.TemporaryDirectory()
        self._file = Path(self._directory.name) / "state.json"
        self._state: dict[str, Any] = {"revision": 1, "hosts": {}, "revisions": {}, "delay": delay}
        self._write()
        self._process = subprocess.Popen(
            [sys.executable, __file__, str(self._file)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        assert self._process.stdout is not None
        self.address = self._process.stdout.readline().strip()

    def stop(self) -> None:
        """Away."""
        self._process.kill()
        self._process.communicate()
        self._directory.cleanup()

    def tell(self, name: str, **fields: Any) -> tuple[str, int]:
        """A new report of a host; what is not said stays. Gives its epoch and sequence."""
        self._state["revision"] += 1
        before = self._state["hosts"].get(name, {"name": name, "epoch": "e1", "sequence": 0})
        after = {**before, "at": time.time(), **fields, "sequence": before["sequence"] + 1}
        self._state["hosts"][name] = after
        self._state["revisions"][name] = self._state["revision"]
        self._write()
        return after["epoch"], after["sequence"]

    def _write(self) -> None:
        fresh = self._file.with_suffix(".new")
        fresh.write_text(json.dumps(self._state))
        os.replace(fresh, self._file)


def answer(state: dict[str, Any], path: str, known: str | None) -> tuple[int, str, bytes]:
    """Status, ETag and body."""
    query = parse_qs(urlsplit(path).query)
    since = int(query["changed_since"][0]) if "changed_since" in query else 0
    fields = query["fields"][0].split(",")
    etag = f'"{since}-{state["revision"]}"'
    if known == etag:
        return 304, etag, b""
    hosts = [
        {field: host[field] for field in fields}
        for name, host in state["hosts"].items()
        if state["revisions"][name] > since
    ]
    return 200, etag, json.dumps({"hosts": hosts, "deleted": [], "changed": str(state["revision"])}).encode()


def serve(file: Path) -> None:
    """Print the address, and serve until killed."""
    from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self):
            state = json.loads(file.read_text())
            time.sleep(state["delay"])
            status, etag, body = answer(state, self.path, self.headers.get("If-None-Match"))
            self.send_response(status)
            self.send_header("ETag", etag)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    print(f"http://127.0.0.1:{server.server_address[1]}", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    serve(Path(sys.argv[1]))
