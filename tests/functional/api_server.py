"""`memhint api` as a real process of a test, with a small synthetic fleet in its store."""

from __future__ import annotations

import re
import signal
import ssl
import subprocess
import sys
import time
from collections.abc import Mapping
from http.client import HTTPConnection, HTTPSConnection
from pathlib import Path

from lab.fleet.fill import fill
from memhint.api.tokens import create
from memhint.store import open_store
from tests.functional.processes import ROOT
from tests.unit.api.site import FLEET, PEOPLE

_ADDRESS = re.compile(r"the API is at (https?)://127\.0\.0\.1:(\d+),")
PATIENCE = 180.0


def fill_store(url: str) -> None:
    """The fleet of the unit tests, in a store at this URL."""
    store = open_store(url)
    try:
        fill(store, FLEET, time.time(), past=1200.0)
    finally:
        store.close()


class ApiServer:
    """A running one. ``options`` are those of [api], ``more`` are further sections."""

    def __init__(self, place: Path, url: str, options: Mapping[str, str] | None = None, more: str = "") -> None:
        self.tokens: dict[str, str] = {}
        lines = []
        for name, (roles, project) in PEOPLE.items():
            self.tokens[name], entry = create(name, roles, project)
            lines.append(entry.line())
        self.token_file = place / "tokens"
        self.token_file.write_text("\n".join(lines) + "\n")
        self.token_file.chmod(0o600)
        said = {"listen": "127.0.0.1:0", "token_file": str(self.token_file), "rate": "0", **(options or {})}
        self.config = place / "api.conf"
        self.config.write_text(
            f"[store]\nurl = {url}\n[api]\n" + "".join(f"{name} = {value}\n" for name, value in said.items()) + more
        )
        self._log = place / "api.log"
        with self._log.open("wb") as log:
            command = [sys.executable, "-m", "memhint.cli.main", "--config-file", str(self.config), "api"]
            self.process = subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=log)
        self.scheme, self.port = self._address()

    @property
    def log(self) -> str:
        """What it has said so far."""
        return self._log.read_text()

    def connection(self, timeout: float = PATIENCE) -> HTTPConnection:
        """A new connection to it."""
        if self.scheme == "https":
            context = ssl.create_default_context()
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            return HTTPSConnection("127.0.0.1", self.port, timeout=timeout, context=context)
        return HTTPConnection("127.0.0.1", self.port, timeout=timeout)

    def get(self, path: str, who: str | None = "admin") -> tuple[int, bytes]:
        """Status and body."""
        connection = self.connection()
        try:
            connection.request("GET", path, headers={"X-Auth-Token": self.tokens[who]} if who else {})
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def stop(self) -> int:
        """Tell it to end; its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(PATIENCE)

    def close(self) -> None:
        """Make sure that it is gone."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    def _address(self) -> tuple[str, int]:
        end = time.monotonic() + PATIENCE
        while True:
            found = _ADDRESS.search(self.log)
            if found is not None:
                return found[1], int(found[2])
            if self.process.poll() is not None or time.monotonic() > end:
                self.close()
                raise AssertionError(f"memhint api does not serve: {self.log}")
            time.sleep(0.05)
