"""A client of the API without a token, or with one that may read, against a real server and real sockets."""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from http.client import HTTPResponse
from pathlib import Path

import pytest

from tests.adversary.health import Health
from tests.functional.api_server import PATIENCE, ApiServer

SOCKETS = 200
ELSEWHERE = "127.0.0.2"
LATEST = 20.0  # seconds after which a request that comes byte by byte has been hung up on


@contextlib.contextmanager
def sockets(server: ApiServer, many: int, first: bytes, buffer: int | None = None) -> Iterator[list[socket.socket]]:
    with contextlib.ExitStack() as stack:
        found = []
        for _ in range(many):
            one = stack.enter_context(socket.socket())
            if buffer is not None:
                one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
            one.settimeout(PATIENCE)
            one.bind((ELSEWHERE, 0))  # who has shown no token is limited by its address
            one.connect(("127.0.0.1", server.port))
            with contextlib.suppress(ConnectionError):
                one.sendall(first)
            found.append(one)
        yield found


def said(server: ApiServer, raw: bytes) -> bytes:
    """Everything that comes back until the server closes."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE) as one:
        found = b""
        with contextlib.suppress(ConnectionError):
            one.sendall(raw)
        with contextlib.suppress(ConnectionError):
            while piece := one.recv(65536):
                found += piece
        return found


def head(server: ApiServer, who: str | None, *lines: str, line: str = "POST /v1/plans HTTP/1.1") -> bytes:
    token = [f"X-Auth-Token: {server.tokens[who]}"] if who else []
    return "\r\n".join([line, "Host: localhost", "Content-Type: application/json", *token, *lines, "", ""]).encode()


def stream(server: ApiServer, who: str) -> HTTPResponse:
    connection = server.connection()
    connection.request("GET", "/v1/stream", headers={"X-Auth-Token": server.tokens[who]})
    return connection.getresponse()


def ask(server: ApiServer, method: str, path: str, body: bytes, **headers: str) -> tuple[int, bytes]:
    connection = server.connection()
    try:
        more = {"X-Auth-Token": server.tokens["admin"], "Content-Type": "application/json", **headers}
        connection.request(method, path, body, more)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


@pytest.mark.parametrize(
    "first",
    [
        b"",
        b"GET /v1/hosts HTTP/1.1\r\nHost: loc",
        b"POST /v1/plans HTTP/1.1\r\nHost: x\r\nContent-Length: 60000\r\n\r\n{",
    ],
    ids=["silent", "in its headers", "in its body"],
)
def test_a_client_without_a_token_opens_sockets_and_never_ends_a_request(server: ApiServer, first: bytes) -> None:
    with Health(server) as health:
        health.more(3)
        with sockets(server, SOCKETS, first):
            health.more(20)
        health.more(3)


def test_a_client_without_a_token_sends_a_byte_at_a_time(lasting: ApiServer) -> None:
    began = time.monotonic()
    with socket.create_connection(("127.0.0.1", lasting.port), timeout=0.5) as one:
        one.sendall(b"GET /healthz HTTP/1.1\r\nX-Slow: ")
        with contextlib.suppress(ConnectionError):
            while time.monotonic() - began < LATEST:
                one.sendall(b"a")
                with contextlib.suppress(TimeoutError):
                    if not one.recv(100):
                        break
    assert time.monotonic() - began < LATEST


def test_a_client_without_a_token_takes_no_answer(server: ApiServer) -> None:
    request = head(server, None, line="GET /openapi.json HTTP/1.1")
    with Health(server) as health, sockets(server, SOCKETS, request * 20, buffer=2048):
        health.more(20)


def test_a_reader_takes_no_answer(server: ApiServer) -> None:
    request = head(server, "reader", line="GET /v1/domains?limit=1000 HTTP/1.1")
    with Health(server) as health, sockets(server, SOCKETS, request * 20, buffer=2048):
        health.more(20)


def test_a_client_without_a_token_never_ends_its_tls_handshake(start: Callable[..., ApiServer], tmp_path: Path) -> None:
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    words = ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost", "-days", "2"]
    subprocess.run(["openssl", *words, "-keyout", str(key), "-out", str(cert)], check=True, capture_output=True)
    server = start(cert_file=str(cert), key_file=str(key))
    with Health(server) as health, sockets(server, SOCKETS, b"\x16\x03\x01"):
        health.more(20)


def test_a_reader_sends_lists_that_are_dear_to_compare(server: ApiServer) -> None:
    mixed = [one for number in range(2000) for one in (number, [number], {"a": number})]
    body = json.dumps({"memory": 1 << 30, "hosts": mixed}).encode()
    assert len(body) < 64 * 1024
    request = head(server, "reader", f"Content-Length: {len(body)}", "Connection: close") + body
    with Health(server) as health:
        found: list[bytes] = []
        threads = [threading.Thread(target=lambda: found.append(said(server, request)[:13])) for _ in range(40)]
        for one in threads:
            one.start()
        health.more(5)
        for one in threads:
            one.join(PATIENCE)
    # So many at once are more than one client may have worked at.
    assert len(found) == 40
    assert b"HTTP/1.1 400 " in found
    assert set(found) <= {b"HTTP/1.1 400 ", b"HTTP/1.1 429 "}


def test_a_reader_hides_a_request_in_a_body_that_is_too_large(lasting: ApiServer) -> None:
    hidden = head(lasting, "reader", line="GET /v1/hosts HTTP/1.1")
    chunks = b"".join(b"2000\r\n" + b" " * 0x2000 + b"\r\n" for _ in range(9))
    found = said(lasting, head(lasting, "reader", "Transfer-Encoding: chunked") + chunks + hidden * 3)
    assert found.startswith(b"HTTP/1.1 413 ") or not found  # what it still sends may take the answer from it
    assert found.count(b"HTTP/1.1 ") <= 1
    assert "GET /v1/hosts" not in lasting.log


@pytest.mark.parametrize(
    "lines",
    [
        ("Transfer-Encoding: chunked", "Content-Length: 4"),
        ("Content-Length: 2", "Content-Length: 4"),
        ("Content-Length: -5",),
        ("Content-Length: 1_0",),
        ("Transfer-Encoding: ,",),
    ],
    ids=lambda one: " and ".join(one),
)
def test_a_reader_leaves_open_where_its_request_ends(lasting: ApiServer, lines: tuple[str, ...]) -> None:
    hidden = head(lasting, "reader", line="GET /v1/hosts HTTP/1.1")
    found = said(lasting, head(lasting, "reader", *lines) + b"0\r\n\r\n" + hidden)
    assert found.startswith(b"HTTP/1.1 400 ")
    assert found.count(b"HTTP/1.1 ") == 1
    assert "GET /v1/hosts" not in lasting.log


def test_a_reader_says_a_huge_chunk(lasting: ApiServer) -> None:
    found = said(lasting, head(lasting, "reader", "Transfer-Encoding: chunked") + b"fffffffff\r\n" + b" " * 1000)
    assert found.startswith(b"HTTP/1.1 413 ")


@pytest.mark.parametrize("depth", [40, 400, 900, 980, 20_000])
def test_a_reader_nests_a_body_deep(lasting: ApiServer, depth: int) -> None:
    status, answer = ask(lasting, "POST", "/v1/plans", b"[" * depth + b"]" * depth)
    assert status == 400, answer
    assert b"memhint.body.not_json" in answer


@pytest.mark.parametrize("value", ["", "abc", '"', '"abc', "W/", ",", '"a" "b"', "*, x"])
def test_a_client_sends_a_condition_that_is_none(lasting: ApiServer, value: str) -> None:
    uuid = json.loads(lasting.get("/v1/domains?limit=1")[1])["domains"][0]["uuid"]
    before = lasting.get(f"/v1/domains/{uuid}/policy")[1]
    wish = b'{"policy": {"guest_actions": "allow"}}'
    status, answer = ask(lasting, "PUT", f"/v1/domains/{uuid}/policy", wish, **{"If-Match": value})
    assert status == 400, answer
    assert lasting.get(f"/v1/domains/{uuid}/policy")[1] == before


def test_who_has_lost_its_token_follows_no_longer(server: ApiServer) -> None:
    lost, kept = stream(server, "reader"), stream(server, "admin")
    assert lost.status == kept.status == 200
    lines = server.token_file.read_text().splitlines()
    server.token_file.write_text("\n".join(one for one in lines if not one.startswith("reader ")) + "\n")
    began = time.monotonic()
    while lost.readline():
        pass
    assert time.monotonic() - began < 10
    assert stream(server, "admin").status == 200


def test_a_reader_takes_every_stream(start: Callable[..., ApiServer]) -> None:
    server = start(streams="6", client_streams="3")
    taken = [stream(server, "reader") for _ in range(8)]
    assert [one.status for one in taken] == [200] * 3 + [503] * 5
    assert stream(server, "admin").status == 200
