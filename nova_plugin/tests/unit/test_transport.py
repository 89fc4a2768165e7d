"""Requests over a real socket: limits, tokens, and servers that misbehave."""

from __future__ import annotations

import contextlib
import gzip
import itertools
import json
import socket
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from memhint_nova import conf as memhint_conf
from memhint_nova.client import HostsClient
from memhint_nova.errors import LookFailed
from memhint_nova.transport import from_conf
from oslo_config import cfg

from tests.slow import mute, trickling
from tests.told import told


@pytest.fixture
def serve():
    """Serve with a handler's `answer(handler)`; gives the address and what was asked."""
    servers = []

    def start(answer):
        asked = []

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                asked.append((self.path, dict(self.headers)))
                # a client that hangs up is what some tests are about
                with contextlib.suppress(ConnectionError):
                    answer(self)

            def log_message(self, *args):
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        servers.append(server)
        return f"http://127.0.0.1:{server.server_address[1]}", asked

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def reply(body: bytes, status=200, **headers):
    def answer(handler):
        handler.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.end_headers()
        handler.wfile.write(body)

    return answer


def conf(**options) -> cfg.ConfigOpts:
    made = cfg.ConfigOpts()
    memhint_conf.register(made)
    made([], default_config_files=[], default_config_dirs=[])
    for name, value in options.items():
        made.set_override(name, value, "memhint")
    return made


def with_keystone(kind, **options) -> cfg.ConfigOpts:
    """With this auth_type, and its own options."""
    from keystoneauth1 import loading

    made = conf(auth_type=kind)
    made.register_opts(loading.get_auth_plugin_conf_options(kind), group="memhint")
    for name, value in options.items():
        made.set_override(name, value, "memhint")
    return made


def test_hosts_over_a_socket(serve) -> None:
    body = json.dumps({"hosts": [told(1)], "changed": "t1"}).encode()
    address, asked = serve(reply(body, ETag='"x"'))
    news = HostsClient(from_conf(conf(endpoint_override=address)), 10.0).look(None)
    assert news.hosts[0]["name"] == "host-1"
    path, headers = asked[0]
    assert path.startswith("/v1/hosts?fields=name%2Cprovider")
    assert headers["OpenStack-API-Version"] == "memhint 1.0"
    assert "X-Auth-Token" not in headers


def test_the_token_is_read_anew_each_time(serve, tmp_path) -> None:
    address, asked = serve(reply(b'{"hosts": []}'))
    file = tmp_path / "token"
    file.write_text("secret-1\nmore\n")
    looks = HostsClient(from_conf(conf(endpoint_override=address, token_file=str(file))), 10.0)
    looks.look(None)
    file.write_text("secret-2\n")
    looks.look(None)
    assert [headers["X-Auth-Token"] for _, headers in asked] == ["secret-1", "secret-2"]


@pytest.mark.parametrize("content", [b"", b"\n", b"x" * 20000, b"a\x00b\n", b"\xff\n"])
def test_a_file_without_a_token_sends_nothing(serve, tmp_path, content) -> None:
    address, asked = serve(reply(b'{"hosts": []}'))
    file = tmp_path / "token"
    file.write_bytes(content)
    looks = HostsClient(from_conf(conf(endpoint_override=address, token_file=str(file))), 10.0)
    with pytest.raises(LookFailed):
        looks.look(None)
    assert asked == []


def test_a_file_that_is_not_there_is_named(serve, tmp_path) -> None:
    address, asked = serve(reply(b'{"hosts": []}'))
    looks = HostsClient(from_conf(conf(endpoint_override=address, token_file=str(tmp_path / "none"))), 10.0)
    with pytest.raises(LookFailed, match=r"none cannot be read: No such file"):
        looks.look(None)
    assert asked == []


@pytest.mark.parametrize("error", [TypeError("'NoneType' object is not subscriptable"), KeyError("expires_at")])
def test_a_keystone_whose_token_is_none_teaches_nothing(serve, error, monkeypatch) -> None:
    from keystoneauth1.session import Session

    def odd(*_words, **_more):
        raise error

    monkeypatch.setattr(Session, "request", odd)
    address, asked = serve(reply(b'{"hosts": []}'))
    with pytest.raises(LookFailed, match="Keystone's answer cannot be read"):
        HostsClient(from_conf(conf(endpoint_override=address)), 10.0).look(None)
    assert asked == []


@pytest.mark.parametrize("packed", [False, True])
def test_an_answer_that_is_too_large_is_dropped(serve, packed) -> None:
    body = b" " * (3 << 20)
    address, _ = serve(reply(gzip.compress(body), Content_Encoding="gzip") if packed else reply(body))
    with pytest.raises(LookFailed, match="more than 1 MiB"):
        HostsClient(from_conf(conf(endpoint_override=address, max_body_mib=1)), 10.0).look(None)


def test_a_server_that_says_nothing_is_given_up(serve) -> None:
    silent = threading.Event()
    address, _ = serve(lambda handler: silent.wait(30))
    with pytest.raises(LookFailed):
        HostsClient(from_conf(conf(endpoint_override=address, request_timeout=0.2)), 10.0).look(None)
    silent.set()


def test_a_server_that_trickles_is_given_up(serve) -> None:
    stop = threading.Event()

    def trickle(handler):
        handler.send_response(200)
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        while not stop.wait(0.02):
            # a piece of its own each time, or requests would collect them
            handler.wfile.write(b"10000\r\n" + b" " * 65536 + b"\r\n")

    address, _ = serve(trickle)
    transport = from_conf(conf(endpoint_override=address, max_body_mib=256))
    ticks = itertools.count(0, 20)
    transport._clock = lambda: float(next(ticks))  # each piece seems to take 20 s
    with pytest.raises(LookFailed, match="took longer than 50 s"):
        HostsClient(transport, 10.0).look(None)
    stop.set()


def test_a_redirect_is_not_followed(serve) -> None:
    elsewhere, asked = serve(reply(b'{"hosts": []}'))
    address, _ = serve(reply(b"", 302, Location=elsewhere + "/v1/hosts"))
    with pytest.raises(LookFailed, match="status 302"):
        HostsClient(from_conf(conf(endpoint_override=address)), 10.0).look(None)
    assert asked == []


def test_nobody_listens() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(LookFailed):
            HostsClient(from_conf(conf(endpoint_override=address)), 10.0).look(None)


def test_a_configuration_that_does_not_say_where_says_what_to_set() -> None:
    with pytest.raises(LookFailed, match="endpoint_override or auth_type"):
        from_conf(conf())


@pytest.mark.parametrize(
    ("kind", "options", "said"),
    [
        ("v3passwort", {}, "v3passwort could not be found"),
        ("v3password", {}, "not given: auth_url"),
        ("v3password", {"auth_url": "http://[::1]/v3", "username": "nova"}, "user_domain"),
    ],
)
def test_a_mistake_in_what_keystone_is_asked_with_says_where_it_is(kind, options, said) -> None:
    made = with_keystone(kind, **options) if options else conf(auth_type=kind)
    with pytest.raises(LookFailed, match=rf"^\[memhint\] of nova\.conf: .*{said}"):
        from_conf(made)


def test_keystone_is_asked_where_an_auth_type_is_set(serve) -> None:
    def answer(handler):
        if handler.path.startswith("/v1/hosts"):
            reply(b'{"hosts": []}')(handler)
        else:
            reply(b"{}")(handler)

    address, asked = serve(answer)
    made = with_keystone("admin_token", token="from-keystone", endpoint=address)
    made.set_override("endpoint_override", address, "memhint")
    HostsClient(from_conf(made), 10.0).look(None)
    assert asked[-1][1]["X-Auth-Token"] == "from-keystone"


@pytest.mark.parametrize(
    "head",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX-Slow: ",
        # urllib3 closes its connection here once it has the head, and reads on
        b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 100000\r\n\r\n",
    ],
)
def test_a_server_that_trickles_bytes_is_hung_up_on_at_the_limit(head) -> None:
    with trickling(head) as address:
        assert_is_hung_up_on(address)


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_proxy_that_trickles_bytes_is_hung_up_on_too(scheme, monkeypatch) -> None:
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with trickling(b"HTTP/1.1 200 OK\r\nX-Slow: ") as address:
        monkeypatch.setenv(f"{scheme}_proxy", address)
        assert_is_hung_up_on(f"{scheme}://memhint.example.org")


def assert_is_hung_up_on(address) -> None:
    began = time.monotonic()
    with pytest.raises(LookFailed, match="took longer than 2 s"):
        HostsClient(from_conf(conf(endpoint_override=address, request_timeout=0.2)), 10.0).look(None)
    assert time.monotonic() - began < 4


def test_a_keystone_that_says_nothing_is_given_up_as_soon_as_the_api_would_be(serve) -> None:
    address, asked = serve(reply(b'{"hosts": []}'))
    with mute() as keystone:
        who = {"username": "nova", "user_domain_name": "Default", "password": "secret"}
        made = with_keystone("v3password", auth_url=keystone, **who)
        made.set_override("endpoint_override", address, "memhint")
        made.set_override("request_timeout", 0.2, "memhint")
        # and not after ten times as long, when everything is hung up on
        with pytest.raises(LookFailed, match=r"/auth/tokens timed out"):
            HostsClient(from_conf(made), 10.0).look(None)
    assert asked == []


@pytest.mark.parametrize(
    ("page", "said"),
    [
        (lambda turn: {"hosts": [], "next": "/v1/hosts?marker=a"}, "same page again"),
        (lambda turn: {"hosts": [], "next": f"/v1/hosts?marker={turn}", "more": "x" * (4 << 20)}, "more than 32 MiB"),
        (lambda turn: {"hosts": [{}] * 50_000, "next": f"/v1/hosts?marker={turn}"}, "more than 100000 hosts"),
        (lambda turn: {"hosts": [], "next": f"/v1/hosts?marker={turn}"}, "does not end after 100 pages"),
    ],
)
def test_pages_without_end_are_given_up(serve, page, said) -> None:
    turns = itertools.count()
    address, _ = serve(lambda handler: reply(json.dumps(page(next(turns))).encode())(handler))
    with pytest.raises(LookFailed, match=said):
        HostsClient(from_conf(conf(endpoint_override=address)), 60.0).look(None)
