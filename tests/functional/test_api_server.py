"""The process of the API: how it begins, serves, streams, and ends."""

from __future__ import annotations

import json
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.client import HTTPResponse
from pathlib import Path
from typing import Any

import pytest

from memhint.store import open_store
from memhint.store.fleet import State
from tests.functional.api_server import PATIENCE, ApiServer, fill_store
from tests.functional.processes import ROOT
from tests.functional.servers.rabbitmq import CONTROLLER, RabbitMQ
from tests.unit import builders
from tests.waiting import until


@pytest.fixture
def url(tmp_path: Path) -> str:
    found = f"sqlite:///{tmp_path}/memhint.db"
    fill_store(found)
    return found


@pytest.fixture
def start(tmp_path: Path, url: str) -> Iterator[Callable[..., ApiServer]]:
    running: list[ApiServer] = []

    def begin(**options: str) -> ApiServer:
        running.append(ApiServer(tmp_path, url, options))
        return running[-1]

    yield begin
    for one in running:
        one.close()


def stream(server: ApiServer) -> HTTPResponse:
    connection = server.connection()
    connection.request("GET", "/v1/stream", headers={"X-Auth-Token": server.tokens["admin"]})
    return connection.getresponse()


def until_line(answer: HTTPResponse, beginning: bytes) -> bytes:
    while True:
        line = answer.readline()
        assert line, "the stream has ended"
        if line.startswith(beginning):
            return line


def test_it_serves_streams_and_ends_when_told_to(start: Callable[..., ApiServer], url: str) -> None:
    server = start(threads="2")
    assert server.get("/healthz", None)[0] == 200
    followers = [stream(server) for _ in range(4)]
    for one in followers:
        assert one.status == 200
        until_line(one, b"id: ")
    assert server.get("/v1/hosts")[0] == 200  # streams take no thread from requests
    store = open_store(url)
    store.fleet.take([State(builders.report(host="new", epoch="001700000000000-0000000a", at=time.time()), 1.0)])
    store.close()
    for one in followers:
        assert until_line(one, b"event: ") == b"event: hosts\n"
        assert b'"name":"new"' in until_line(one, b"data: ")
    assert server.stop() == 0
    for one in followers:
        assert one.read() is not None  # the end, and no broken connection
    for token in server.tokens.values():
        assert token not in server.log


def test_streams_are_bounded_and_a_client_that_goes_makes_room(start: Callable[..., ApiServer], url: str) -> None:
    server = start(streams="1")
    first = stream(server)
    until_line(first, b"id: ")
    assert stream(server).status == 503
    first.close()
    assert stream(server).status == 200  # though nothing was said meanwhile


def test_who_takes_nothing_holds_nobody_up(start: Callable[..., ApiServer]) -> None:
    server = start(threads="1", streams="1")
    with socket.create_connection(("127.0.0.1", server.port)) as silent:
        silent.sendall(b"GET /v1/hosts HTTP/1.1\r\nHost: localhost\r\n")  # and never ends it
        assert server.get("/healthz", None)[0] == 200


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"GET / HTTP/1.1\r\nHost: localhost\r\nX-Long: " + b"a" * 20_000 + b"\r\n\r\n", b"413"),
        (b"POST /v1/plans HTTP/1.1\r\nHost: localhost\r\nContent-Length: 70000\r\n\r\n", b"413"),
        (b"POST /v1/plans HTTP/1.1\r\nHost: localhost\r\nContent-Length: x\r\n\r\n", b"400"),
        (b"nonsense\r\n\r\n", b"400"),
        (b"GET /\xff HTTP/1.1\r\nHost: localhost\r\n\r\n", b"400"),
        (b"GET /%00%ff HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", b"404"),
    ],
)
def test_what_is_no_proper_request_is_answered_and_the_next_one_too(
    start: Callable[..., ApiServer], sent: bytes, status: bytes
) -> None:
    server = start()
    with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE) as raw:
        raw.sendall(sent)
        assert raw.recv(100).split()[1] == status
    assert server.get("/healthz", None)[0] == 200
    assert "Traceback" not in server.log


def certificate(place: Path, name: str = "") -> tuple[Path, Path]:
    """One of our own, and its key."""
    cert, key = place / f"{name}cert.pem", place / f"{name}key.pem"
    words = ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost", "-days", "2"]
    subprocess.run(["openssl", *words, "-keyout", str(key), "-out", str(cert)], check=True, capture_output=True)
    return cert, key


def test_a_renewed_certificate_holds_from_the_next_connection_on(
    start: Callable[..., ApiServer], tmp_path: Path
) -> None:
    cert, key = certificate(tmp_path)
    new_cert, new_key = certificate(tmp_path, "new-")
    before, after = cert.read_text(), new_cert.read_text()
    server = start(cert_file=str(cert), key_file=str(key))

    def shown() -> str:
        return ssl.get_server_certificate(("127.0.0.1", server.port), timeout=PATIENCE)

    assert shown() == before
    new_cert.replace(cert)  # its key is the old one still
    assert shown() == before
    assert "cannot be used yet" in server.log
    new_key.replace(key)
    assert shown() == after
    cert.unlink()
    assert shown() == after


def test_it_speaks_tls_and_nothing_older(start: Callable[..., ApiServer], tmp_path: Path) -> None:
    cert, key = certificate(tmp_path)
    server = start(cert_file=str(cert), key_file=str(key))
    assert server.scheme == "https"
    assert server.get("/v1/hosts")[0] == 200
    old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    old.check_hostname, old.verify_mode = False, ssl.CERT_NONE
    old.maximum_version = ssl.TLSVersion.TLSv1_1
    with (
        socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE) as raw,
        pytest.raises((ssl.SSLError, ConnectionError)),
    ):
        old.wrap_socket(raw)


def test_many_ask_at_the_same_time_and_each_is_answered(start: Callable[..., ApiServer]) -> None:
    server = start(threads="4")
    found: list[int] = []

    def ask() -> None:
        for _ in range(10):
            found.append(server.get("/v1/domains?limit=5")[0])

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for one in threads:
        one.start()
    for one in threads:
        one.join(PATIENCE)
    assert found == [200] * 80


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ("auth = none\nlisten = 0.0.0.0:8790\n", "use loopback addresses"),
        ("token_file = /nowhere/tokens\n", "memhint token create"),
        ("cert_file = /nowhere/cert.pem\nauth = none\n", "[api] cert_file"),
        ("listen = everywhere\n", "[api] listen"),
        ("listen = 127.0.0.1:65535, 127.0.0.1:65535\nauth = none\n", "choose another address"),
        ("cert_file = /dev/null\nauth = none\n", "[api] cert_file, key_file: /dev/null: "),
    ],
)
def test_what_it_cannot_serve_with_ends_the_start(tmp_path: Path, url: str, lines: str, said: str) -> None:
    path = tmp_path / "memhint.conf"
    path.write_text(f"[store]\nurl = {url}\n[api]\n{lines}")
    command = [sys.executable, "-m", "memhint.cli.main", "--config-file", str(path), "api"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=PATIENCE)
    assert done.returncode == 2, done.stderr
    assert said in done.stderr


def test_it_works_on_under_another_wsgi_server(tmp_path: Path, url: str) -> None:
    path = tmp_path / "memhint.conf"
    path.write_text(f"[DEFAULT]\nlog_dir = {tmp_path}\n[store]\nurl = {url}\n[api]\nauth = none\n")
    code = (
        "from werkzeug.test import Client; from memhint.api.wsgi import application\n"
        "print(Client(application).get('/v1/hosts?limit=1', environ_overrides={'REMOTE_ADDR': '127.0.0.1'}).status)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
        env={"MEMHINT_CONFIG": str(path), "PATH": ""},
    )
    assert done.stdout.endswith("200 OK\n"), done.stderr
    assert [log.name for log in tmp_path.glob("*.log")] == ["memhint-api.log"]


def test_its_log_has_a_line_for_each_request_and_no_query(start: Callable[..., ApiServer]) -> None:
    server = start()
    server.get("/v1/hosts?limit=3", "reader")
    server.get("/v1/hosts", None)
    server.process.send_signal(signal.SIGINT)
    assert server.process.wait(PATIENCE) == 0
    assert "GET /v1/hosts by reader: 200" in server.log
    assert "GET /v1/hosts by -: 401" in server.log
    assert "limit=3" not in server.log


def test_in_a_fleet_wishes_are_kept_whether_host_or_broker_is_there(
    tmp_path: Path, url: str, rabbitmq: RabbitMQ
) -> None:
    rabbitmq.begin()
    server = ApiServer(tmp_path, url, more=f"[bus]\nurls = {rabbitmq.url(CONTROLLER)}\n")
    try:
        assert json.loads(server.get("/healthz", None)[1])["bus"] == "ok"
        uuid = json.loads(server.get("/v1/domains?limit=1")[1])["domains"][0]["uuid"]

        def wish(value: str) -> dict[str, Any]:
            connection = server.connection()
            headers = {"X-Auth-Token": server.tokens["admin"], "Content-Type": "application/json"}
            body = json.dumps({"policy": {"balloon": value}})
            connection.request("PUT", f"/v1/domains/{uuid}/policy", body, headers)
            answer = connection.getresponse()
            assert answer.status == 200
            found: dict[str, Any] = json.loads(answer.read())
            return found

        told = wish("allow")
        assert not told["delivery"]["taken"]
        assert told["delivery"]["detail"]
        assert told["policy"]["balloon"] == {"value": "allow", "origin": "operator"}
        rabbitmq.kill()
        until(lambda: json.loads(server.get("/healthz", None)[1])["bus"] == "away")
        assert not wish("deny")["delivery"]["taken"]
        assert json.loads(server.get(f"/v1/domains/{uuid}/policy")[1])["policy"]["balloon"]["value"] == "deny"
        assert server.stop() == 0
    finally:
        server.close()
        rabbitmq.start()
