"""A Prometheus of a test: on loopback, with the scrape configuration and the rules that memhint ships."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from lab.servers.directory import ServerDirectory, kill, wait_until
from lab.servers.ports import free_ports

ETC = Path(__file__).parents[3] / "etc" / "prometheus"


class Prometheus:
    """Scrapes one target of each job each second."""

    def __init__(self, targets: Mapping[str, str], token: str) -> None:
        """:param targets: host:port by the job's name
        :param token: what the API asks for
        """
        self.place = ServerDirectory.temporary("prom")
        (self._port,) = free_ports(1)
        self._process: subprocess.Popen[bytes] | None = None
        rules = self.place.path / "memhint.rules.yml"
        shutil.copy(ETC / rules.name, rules)
        rules.chmod(0o644)
        conf = yaml.safe_load((ETC / "memhint.scrape.yml").read_text())
        conf["global"] = {"evaluation_interval": "1s"}
        conf["rule_files"] = [str(rules)]
        for job in conf["scrape_configs"]:
            job["scrape_interval"] = job["scrape_timeout"] = "2s"
            job["static_configs"] = [{"targets": [targets[job["job_name"]]]}]
            if "authorization" in job:
                job["authorization"]["credentials_file"] = str(self.place.write("token", token))
        self._conf = self.place.write("prometheus.yml", yaml.safe_dump(conf))

    def start(self) -> None:
        self._process = self.place.start(
            [
                "/usr/bin/prometheus",
                f"--config.file={self._conf}",
                f"--storage.tsdb.path={self.place.path}/data",
                f"--web.listen-address=127.0.0.1:{self._port}",
            ]
        )
        wait_until(self._ready, f"Prometheus ({self.place.path}/log)", self._process)

    def close(self) -> None:
        kill(self._process, signal.SIGTERM)
        self.place.remove()

    def query(self, expression: str) -> list[dict[str, Any]]:
        """What an expression gives now."""
        found = self.get("query", query=expression)["result"]
        assert isinstance(found, list)
        return found

    def comes(self, expression: str, seconds: float = 90.0) -> list[dict[str, Any]]:
        """What an expression gives once it gives something; nothing where it never does."""
        end = time.monotonic() + seconds
        while not (found := self.query(expression)) and time.monotonic() < end:
            time.sleep(0.5)
        return found

    def get(self, what: str, **words: str) -> Any:
        """The data of an answer of its API; an error in an expression fails the test."""
        url = f"http://127.0.0.1:{self._port}/api/v1/{what}?{urllib.parse.urlencode(words)}"
        try:
            with urllib.request.urlopen(url, timeout=60) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{what} {words}: {error.read().decode()}") from error

    def _ready(self) -> bool:
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{self._port}/-/ready", timeout=5).close()
        except OSError:
            return False
        return True
