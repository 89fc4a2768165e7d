"""A real Placement on a real database: its own process on loopback, taking the token "admin" for an administrator's."""

from __future__ import annotations

import signal
import subprocess
import sys

import requests

from lab.servers.directory import ServerDirectory, kill, wait_until
from lab.servers.ports import free_ports

_SERVE = """\
import sys
from socketserver import ThreadingMixIn
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer
from placement.wsgi.api import application

class Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True
    request_queue_size = 128

class Handler(WSGIRequestHandler):
    def log_message(self, *_):
        pass

server = Server(("127.0.0.1", int(sys.argv[1])), Handler)
server.set_app(application)
server.serve_forever()
"""


class Placement:
    """One service; its database is the caller's."""

    def __init__(self, database: str) -> None:
        self.place = ServerDirectory.temporary("pl")
        self.place.user = None  # a virtualenv need not be readable for anybody else
        (self.port,) = free_ports(1)
        self.url = f"http://127.0.0.1:{self.port}"
        self.place.write(
            "placement.conf",
            f"[api]\nauth_strategy = noauth2\n[placement_database]\nconnection = {database}\nsync_on_startup = true\n"
            "[placement]\nallocation_conflict_retry_count = 1\n",
        )
        self.place.write("serve.py", _SERVE)
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self._process = self.place.start(
            [sys.executable, str(self.place.path / "serve.py"), str(self.port)],
            {"OS_PLACEMENT_CONFIG_DIR": str(self.place.path)},
        )
        wait_until(self._ready, "Placement", self._process)

    def stop(self) -> None:
        """As an operator would."""
        kill(self._process, signal.SIGTERM)

    def close(self) -> None:
        kill(self._process)
        self.place.remove()

    def ask(self, method: str, path: str, body: object = None) -> requests.Response:
        """As an administrator, with the newest microversion."""
        headers = {"X-Auth-Token": "admin", "OpenStack-API-Version": "placement 1.39"}
        return requests.request(method, self.url + path, json=body, headers=headers, timeout=60)

    def add(self, name: str, total: int, ratio: float = 1.0, reserved: int = 0, uuid: str | None = None) -> str:
        """A compute host with so many MiB; its UUID, which Placement chooses where none is given."""
        found = self.ask("POST", "/resource_providers", {"name": name} | ({"uuid": uuid} if uuid else {}))
        assert found.status_code == 200, found.text
        uuid = str(found.json()["uuid"])
        inventory = {"total": total, "reserved": reserved, "min_unit": 1, "max_unit": total, "step_size": 1}
        body = {
            "resource_provider_generation": 0,
            "inventories": {"MEMORY_MB": {**inventory, "allocation_ratio": ratio}, "VCPU": {"total": 1000}},
        }
        answer = self.ask("PUT", f"/resource_providers/{uuid}/inventories", body)
        assert answer.status_code == 200, answer.text
        return uuid

    def claim(self, provider: str, consumer: str, memory: int) -> bool:
        """What Nova's scheduler does for a VM; False where there is no room."""
        body = {
            "allocations": {provider: {"resources": {"MEMORY_MB": memory, "VCPU": 1}}},
            "consumer_generation": None,
            "consumer_type": "INSTANCE",
            "project_id": "p",
            "user_id": "u",
        }
        for _ in range(50):
            answer = self.ask("PUT", f"/allocations/{consumer}", body)
            if answer.status_code != 409 or "concurrent" not in answer.text:
                return answer.status_code == 204
        raise AssertionError(answer.text)

    def ratio(self, provider: str) -> float:
        return float(self._memory(provider)["allocation_ratio"])

    def set_ratio(self, provider: str, ratio: float) -> None:
        """As somebody else would."""
        for _ in range(50):
            body = {**self._memory(provider), "allocation_ratio": ratio}
            if self.ask("PUT", f"/resource_providers/{provider}/inventories/MEMORY_MB", body).status_code == 200:
                return
        raise AssertionError("never accepted")

    def used(self, provider: str) -> int:
        return int(self.ask("GET", f"/resource_providers/{provider}/usages").json()["usages"]["MEMORY_MB"])

    def traits(self, provider: str) -> list[str]:
        return list(self.ask("GET", f"/resource_providers/{provider}/traits").json()["traits"])

    def _memory(self, provider: str) -> dict[str, object]:
        return dict(self.ask("GET", f"/resource_providers/{provider}/inventories/MEMORY_MB").json())

    def _ready(self) -> bool:
        try:
            return requests.get(self.url, timeout=5).status_code == 200
        except requests.RequestException:
            return False
