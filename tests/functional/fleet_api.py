"""`memhint api` as a process of a test, over a store with a synthetic fleet of more VMs than one answer holds."""

from __future__ import annotations

import io
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

from lab.fleet.fill import fill, keep
from lab.fleet.fleet import Fleet, Shape
from memhint.api.tokens import create
from memhint.cli.main import main
from memhint.store import Store, open_store
from tests.functional.processes import ROOT

FLEET = Fleet(Shape(hosts=60, vms=20, period=600.0))  # 1200 VMs; nothing of it grows stale while tests run
SMALL = Fleet(Shape(hosts=6, vms=2, period=600.0))
PEOPLE: Mapping[str, tuple[str, str | None]] = {
    "admin": ("admin", None),
    "service": ("service", None),
    "reader": ("reader", None),
    "own": ("reader", "violet"),
}
PATIENCE = 180.0
_ADDRESS = re.compile(r"the API is at (https?://127\.0\.0\.1:\d+),")


@dataclass(frozen=True)
class Ended:
    """What became of a command."""

    returncode: int
    stdout: str
    stderr: str


class FleetApi:
    """A running one. ``options`` are those of [api]."""

    def __init__(self, place: Path, options: Mapping[str, str] | None = None, fleet: Fleet = FLEET) -> None:
        self.place = place
        self._fleet = fleet
        self.database = f"sqlite:///{place}/memhint.db"
        self.store: Store = open_store(self.database)
        fill(self.store, fleet, time.time())
        lines = []
        for name, (role, project) in PEOPLE.items():
            token, entry = create(name, [role], project)
            self.token_file(name).write_text(f"{token}\n")
            self.token_file(name).chmod(0o600)
            lines.append(entry.line())
        tokens = place / "tokens"
        tokens.write_text("\n".join(lines) + "\n")
        tokens.chmod(0o600)
        self._options = {"listen": "127.0.0.1:0", "token_file": str(tokens), "rate": "0", **(options or {})}
        self.start()

    def start(self) -> None:
        """Start it, the second time at the address that it had."""
        config, log = self.place / "api.conf", self.place / "api.log"
        options = "".join(f"{name} = {value}\n" for name, value in self._options.items())
        config.write_text(f"[store]\nurl = {self.database}\n[api]\n{options}")
        with log.open("wb") as file:
            command = [sys.executable, "-m", "memhint.cli.main", "--config-file", str(config), "api"]
            self._process = subprocess.Popen(command, cwd=ROOT, stdout=file, stderr=file)
        end = time.monotonic() + PATIENCE
        while (found := _ADDRESS.search(log.read_text())) is None:
            if self._process.poll() is not None or time.monotonic() > end:
                self.stop()
                raise AssertionError(f"memhint api does not serve: {log.read_text()}")
            time.sleep(0.05)
        self.url = found[1]
        self._options["listen"] = self.url.partition("//")[2]

    def stop(self) -> None:
        """End the process."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                self._process.kill()
        self._process.wait()

    def close(self) -> None:
        """End all of it."""
        self.stop()
        self.store.close()

    def token_file(self, who: str) -> Path:
        """Where the token of one of PEOPLE is."""
        return self.place / f"{who}.token"

    def token(self, who: str) -> str:
        """The token itself."""
        return self.token_file(who).read_text().strip()

    def change(self, host: int, later: float) -> None:
        """Have a host report anew, so many seconds after the fleet was filled."""
        now = time.time()
        keep(self.store, FLEET, iter([self._fleet.report(host, now + later)]), now)

    def memhint(self, *words: str, who: str | None = "admin") -> Ended:
        """`memhint` in this process, as one of PEOPLE or as nobody."""
        out, err = io.StringIO(), io.StringIO()
        with (
            mock.patch.dict(os.environ, self.environ(who), clear=True),
            redirect_stdout(out),
            redirect_stderr(err),
        ):
            code = main(words)
        return Ended(code, out.getvalue(), err.getvalue())

    def openstack(self, *words: str) -> subprocess.CompletedProcess[str]:
        """The real `openstack`."""
        program = Path(sys.executable).with_name("openstack")
        return subprocess.run(
            [str(program), "--os-endpoint", self.url, *words],
            capture_output=True,
            text=True,
            check=False,
            env=self.environ(None),
        )

    def environ(self, who: str | None) -> dict[str, str]:
        """The environment of one of PEOPLE, without what this one's says of other clouds."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("OS_", "MEMHINT_"))}
        more = {"MEMHINT_TOKEN_FILE": str(self.token_file(who))} if who else {}
        return {**kept, "MEMHINT_API": self.url, "HOME": str(self.place), "PYTHONUNBUFFERED": "1", **more}
