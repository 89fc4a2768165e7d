"""A server that sends a byte now and then is hung up on, wherever in its answer it does."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator

import pytest
import requests

from memhint.client.errors import TooSlow
from memhint.client.session import transport_of
from memhint.client.settings import Settings
from memhint.http_deadline import Deadline
from tests.unit.client.conftest import Naps
from tests.unit.client.fake_server import Asked, FakeServer, Reply

DEADLINE = 0.3
LONG = 20.0  # seconds that a trickle would go on for
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"


class Trickle:
    """Answers each request with a beginning, and then with a byte every few milliseconds."""

    def __init__(self, beginning: bytes, drop: bytes, seconds: float = LONG) -> None:
        self.asked = 0
        self.gone = threading.Event()  # the client hung up
        self._beginning, self._drop, self._seconds = beginning, drop, seconds
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        self._socket.close()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._socket.accept()
                threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        with connection:
            connection.recv(65536)
            self.asked += 1
            end = time.monotonic() + self._seconds
            try:
                connection.sendall(self._beginning)
                while time.monotonic() < end:
                    connection.sendall(self._drop)
                    time.sleep(0.01)
            except OSError:
                self.gone.set()


@pytest.fixture
def trickle() -> Iterator[Callable[..., Trickle]]:
    with contextlib.ExitStack() as stack:

        def start(beginning: bytes, drop: bytes, seconds: float = LONG) -> Trickle:
            return stack.enter_context(contextlib.closing(Trickle(beginning, drop, seconds)))

        yield start


@pytest.mark.parametrize(
    ("beginning", "drop"),
    [
        (b"", b"H"),  # no line of it is ever whole
        (HEAD, b"X"),
        (HEAD + b"Content-Length: 1000000\r\n\r\n", b" "),
        (HEAD + b"Connection: close\r\n\r\n", b" "),  # urllib3 has closed its connection by then
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\n \r\n"),
        (HEAD.replace(b"200 OK", b"503 Busy") + b"Content-Length: 1000000\r\n\r\n", b" "),
    ],
    ids=["status", "headers", "body", "body to the end", "chunks", "an error's body"],
)
def test_a_trickle_ends_with_the_deadline_and_is_not_asked_for_again(
    trickle: Callable[..., Trickle], naps: Naps, beginning: bytes, drop: bytes
) -> None:
    server = trickle(beginning, drop)
    began = time.monotonic()
    with pytest.raises(TooSlow, match=r"not whole after 0\.3 s"):
        transport_of(Settings(server.url, timeout=10, deadline=DEADLINE), naps).get("/v1/hosts")
    assert time.monotonic() - began < LONG / 2
    assert server.asked == 1
    assert naps.taken == []
    assert server.gone.wait(LONG / 2)


def test_a_stream_must_begin_in_time_and_may_then_go_on(trickle: Callable[..., Trickle]) -> None:
    late = trickle(HEAD, b"X")
    with (
        pytest.raises(TooSlow),
        transport_of(Settings(late.url, deadline=DEADLINE)).stream("/v1/stream", None, 10.0),
    ):
        pass
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    steady = trickle(head, b"1\r\n:\r\n")
    began = time.monotonic()
    with transport_of(Settings(steady.url, deadline=DEADLINE)).stream("/v1/stream", None, 10.0) as pieces:
        while time.monotonic() < began + 2 * DEADLINE:
            assert next(pieces) == b":"


def test_a_thread_hangs_up_on_its_own_requests_only(trickle: Callable[..., Trickle]) -> None:
    slow, soon = trickle(HEAD, b"X"), trickle(HEAD + b"Connection: close\r\n\r\n", b" ", 4 * DEADLINE)
    deadline, session, hung_up = Deadline(), requests.Session(), threading.Event()
    session.mount("http://", deadline)

    def ask() -> None:
        with deadline.within(DEADLINE) as late, contextlib.suppress(requests.RequestException):
            session.get(slow.url)
        if late.is_set():
            hung_up.set()

    other = threading.Thread(target=ask)
    with deadline.within(LONG) as late, session.get(soon.url, stream=True) as answer:
        other.start()
        body = answer.content
        assert hung_up.is_set()
        assert not late.is_set()
        assert len(body) > 2
        assert not soon.gone.is_set()
    other.join(LONG)


def test_a_connection_that_is_used_again_is_watched_again(server: FakeServer) -> None:
    deadline, session = Deadline(), requests.Session()
    session.mount("http://", deadline)
    server.replies = [Reply(body={})]
    with deadline.within(LONG):
        session.get(server.url)
    asked, answered = threading.Event(), threading.Event()

    def answer(_: Asked) -> Reply:
        asked.set()
        answered.wait(LONG)
        return Reply(hang_up=True)

    server.answer = answer
    began = time.monotonic()
    with deadline.within(DEADLINE) as late, pytest.raises(requests.RequestException):
        session.get(server.url)
    assert asked.is_set()
    assert late.is_set()
    assert time.monotonic() - began < LONG / 2
    answered.set()
