"""An answer of Keystone or of a service that is none is always an error of ours, never a success."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from memhint.conf.load import load
from memhint.openstack.errors import OpenStackError
from memhint.openstack.placement import MICROVERSION
from memhint.openstack.session import ServiceClient, service

Answer = tuple[int, object, dict[str, str]]


class Cloud(ThreadingHTTPServer):
    """Keystone and one service on one port; what they answer is the test's."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.url = f"http://127.0.0.1:{self.server_port}"
        endpoint = {"interface": "internal", "region": "r", "region_id": "r", "url": f"{self.url}/placement"}
        token = {
            "methods": ["password"],
            "expires_at": "2126-01-01T00:00:00.000000Z",
            "issued_at": "2026-01-01T00:00:00.000000Z",
            "user": {"id": "u", "name": "memhint", "domain": {"id": "d", "name": "Default"}},
            "catalog": [{"type": "placement", "id": "1", "name": "placement", "endpoints": [endpoint]}],
        }
        self.token: Callable[[], Answer] = lambda: (201, {"token": token}, {"X-Subject-Token": "t"})
        self.piece, self.pause = 1 << 20, 0.0  # bytes at once, and seconds between two pieces
        self.service: Callable[[], Answer] = lambda: (200, {"there": True}, {})


class _Handler(BaseHTTPRequestHandler):
    server: Cloud

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def do_PUT(self) -> None:
        self._answer()

    def log_message(self, *_: Any) -> None:
        pass

    def _answer(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.path.startswith("/placement"):
            status, body, headers = self.server.service()
        elif self.path.startswith("/v3/auth"):
            status, body, headers = self.server.token()
        else:
            links = [{"rel": "self", "href": f"{self.server.url}/v3/"}]
            status, body, headers = 200, {"version": {"id": "v3.14", "status": "stable", "links": links}}, {}
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(raw))}.items():
            self.send_header(name, value)
        self.end_headers()
        with suppress(ConnectionError):  # who asked may have hung up
            for at in range(0, len(raw), self.server.piece):
                self.wfile.write(raw[at : at + self.server.piece])
                time.sleep(self.server.pause)


@pytest.fixture
def cloud() -> Iterator[Cloud]:
    with Cloud() as made:
        thread = threading.Thread(target=made.serve_forever)
        thread.start()
        yield made
        made.shutdown()
        thread.join()


@pytest.fixture
def client(cloud: Cloud, tmp_path: Path) -> ServiceClient:
    return client_of(cloud, tmp_path, timeout=5)


def client_of(cloud: Cloud, tmp_path: Path, timeout: int) -> ServiceClient:
    conf = tmp_path / "memhint.conf"
    conf.write_text(f"[openstack]\nauth_url = {cloud.url}/v3\npassword = x\ntimeout = {timeout}\n")
    return service(load([conf]), "placement", MICROVERSION, "")


def test_a_service_of_the_catalogue_is_found_and_asked(client: ServiceClient) -> None:
    assert client.get("/x") == {"there": True}


@pytest.mark.parametrize(
    "token",
    [
        (201, b"null", {"X-Subject-Token": "t"}),
        (201, {"token": None}, {"X-Subject-Token": "t"}),
        (201, {"token": {}}, {"X-Subject-Token": "t"}),
        (201, {"token": {"expires_at": "soon"}}, {"X-Subject-Token": "t"}),
        (201, {"token": {"expires_at": "2126-01-01T00:00:00Z", "catalog": [1]}}, {"X-Subject-Token": "t"}),
        (201, {"token": {"expires_at": "2126-01-01T00:00:00Z"}}, {}),
        (200, b"<html>come back later</html>", {}),
        (503, b"<html>come back later</html>", {}),
    ],
)
def test_a_token_that_is_none_is_an_error_that_names_its_section(
    cloud: Cloud, client: ServiceClient, token: Answer
) -> None:
    cloud.token = lambda: token
    with pytest.raises(OpenStackError, match=r"placement cannot be asked: .*\[openstack\]"):
        client.get("/x")


@pytest.mark.parametrize("method", ["get", "put", "post"])
@pytest.mark.parametrize("where", [None, "http://[::1", "ftp://elsewhere/", "/placement/x"])
def test_a_redirect_that_leads_nowhere_is_no_success(
    cloud: Cloud, client: ServiceClient, method: str, where: str | None
) -> None:
    cloud.service = lambda: (302, b"", {} if where is None else {"Location": where.replace("/p", f"{cloud.url}/p")})
    words = ("/x",) if method == "get" else ("/x", {})
    with pytest.raises(OpenStackError):
        getattr(client, method)(*words)


def test_an_answer_that_never_ends_is_given_up(cloud: Cloud, tmp_path: Path) -> None:
    client = client_of(cloud, tmp_path, timeout=1)
    client.get("/x")
    cloud.piece, cloud.pause = 1, 0.2  # each byte in time
    cloud.service = lambda: (200, b" " * 200, {})
    began = time.monotonic()
    with pytest.raises(OpenStackError, match="not whole after 3 s"):
        client.get("/x")
    assert time.monotonic() - began < 20
    cloud.piece, cloud.pause = 1 << 20, 0.0
    cloud.service = lambda: (200, {"there": True}, {})
    assert client.get("/x") == {"there": True}


@pytest.mark.parametrize("status", [200, 500])
def test_an_answer_that_is_larger_than_any_is_not_read(
    cloud: Cloud, client: ServiceClient, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memhint.openstack.session.LARGEST", 1 << 20)
    cloud.service = lambda: (status, b"[" + b" " * (4 << 20) + b"]", {})
    with pytest.raises(OpenStackError, match="more than 1 MiB"):
        client.get("/x")


def test_why_a_service_refuses_is_said(cloud: Cloud, client: ServiceClient) -> None:
    cloud.service = lambda: (406, {"errors": [{"detail": "no such microversion"}]}, {})
    with pytest.raises(OpenStackError, match="GET /x: 406 no such microversion"):
        client.get("/x")
    cloud.service = lambda: (502, b"<html>\nback later \xff", {})
    with pytest.raises(OpenStackError, match="GET /x: 502 <html> back later"):
        client.get("/x")
