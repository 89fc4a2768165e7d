"""Connections whose clients keep the server waiting: cheroot bounds sizes and silence, this bounds the whole request.

cheroot gives a thread to each connection and a time to each read. A client that sends a byte now and then would hold
its thread for ever. Here a request as a whole has a time, an answer too, and when threads are short, whoever has kept
one waiting longest is hung up on: who has not shown a token first.
"""

from __future__ import annotations

import contextlib
import io
import logging
import select
import socket
import ssl
import threading
import time
from collections.abc import Callable
from typing import Any

from cheroot import errors, server, wsgi
from cheroot.ssl.builtin import BuiltinSSLAdapter

from memhint.api.file_mark import file_mark

LOG = logging.getLogger(__name__)

REQUEST_MOST = 10.0  # seconds for all of a request: handshake, headers and body
ANSWER_MOST = 60.0  # seconds for a client to take all of an answer, or one message of a stream
SHORT = 0.05  # seconds that a client may keep a thread waiting while others have none
SHORTEST = 0.02  # the same, where many more wait than there are threads: less, or the last of them waits for long
EVERY = 0.01  # seconds between two looks
LOOK_MOST = 0.02  # seconds that count between two looks: what is more, this process waited for a processor
KNOWN = "memhint.known"  # in the environment of a request: to be called when the caller has shown who it is
THERE = "memhint.there"  # and this one tells whether the client has not hung up
_ONCE = (b"Content-Length", b"Transfer-Encoding", b"Host")


class Connection(server.HTTPConnection):
    """One client's.

    ``waiting`` is since when a thread waits for the client, None while it does not; ``since`` the same by the clock of
    those who wait.
    """

    waiting: float | None = None
    since = 0.0
    known = False
    sending = False
    streams = False
    hung_up = False

    def communicate(self) -> bool:
        """Serve one request; whether to keep the connection."""
        self.known = self.sending = False  # each request shows it again
        self.await_client()
        self.server.waiters.add(self)
        try:
            if isinstance(self.socket, ssl.SSLSocket) and self.socket.version() is None:
                self.socket.do_handshake()
            return bool(super().communicate()) and not self.hung_up  # type: ignore[no-untyped-call]
        except OSError as error:
            LOG.info("%s: %s", self.remote_addr, error)
            return False
        finally:
            self.waiting = None
            self.server.waiters.discard(self)

    def await_client(self) -> None:
        """From now on a thread waits for the client."""
        self.since = self.server.waiters.clock
        self.waiting = time.monotonic()

    def there(self) -> bool:
        """Whether the client has not hung up. It is asked of the kernel: nothing is read."""
        return self._polled(select.POLLRDHUP) is False

    def idle(self) -> bool:
        """Whether nothing of this client's waits for us: it sends nothing, or takes nothing."""
        return self._polled(select.POLLOUT if self.sending else select.POLLIN) is False

    def _polled(self, events: int) -> bool | None:
        """Whether one of them is there; None when the socket is closed on this side."""
        poll = select.poll()
        try:
            poll.register(self.socket, events)
        except (OSError, ValueError):
            return None
        return bool(poll.poll(0))

    def hang_up(self) -> None:
        """Have the thread that waits for this client go on with others."""
        self.hung_up = True
        with contextlib.suppress(OSError):
            # Not SSLSocket's own: that one takes the TLS state away from the thread that reads.
            socket.socket.shutdown(self.socket, socket.SHUT_RDWR)


class _Headers(dict[bytes, bytes]):
    """Headers of a request; those that say where it ends, once."""

    def __setitem__(self, name: bytes, value: bytes) -> None:
        if name in _ONCE and name in self:
            raise ValueError(f"{name.decode()} is there twice")
        super().__setitem__(name, value)


class Request(server.HTTPRequest):
    """One request, read as a whole before anything is done about it: nothing of it can become the next one."""

    def __init__(self, *words: Any, **more: Any) -> None:
        super().__init__(*words, **more)
        self.inheaders = _Headers()

    def read_request_headers(self) -> bool:
        """Read them; whether they are those of a request that has one meaning only."""
        if not super().read_request_headers():  # type: ignore[no-untyped-call]
            self.close_connection = True
            return False
        length = self.inheaders.get(b"Content-Length")
        coded = b"Transfer-Encoding" in self.inheaders
        if (length is not None and not length.isdigit()) or (coded and (length is not None or not self.chunked_read)):
            self.close_connection = True
            self.simple_response("400 Bad Request", "It is not clear where this request ends")
            return False
        if coded:
            self.close_connection = True  # what may come after the last chunk is not read
        return True

    def respond(self) -> None:
        """Read the body, then have it answered."""
        most = self.server.max_request_body_size
        try:
            if self.chunked_read:
                body = _unchunked(self.conn.rfile, most)
            else:
                body = self._whole(int(self.inheaders.get(b"Content-Length", 0)))
        except errors.MaxSizeExceeded:
            self.simple_response("413 Request Entity Too Large", f"A body has {most} bytes at most")
            return
        except ValueError:
            self.close_connection = True
            self.simple_response("400 Bad Request", "The body is not of the length that was said")
            return
        self.conn.waiting = None
        self.rfile = io.BytesIO(body)
        self.server.gateway(self).respond()
        if self.ready:
            self.ensure_headers_sent()
        if self.chunked_write:
            self._sending(self.conn.wfile.write, b"0\r\n\r\n")

    def write(self, chunk: bytes) -> None:
        """A piece of the answer."""
        self._sending(super().write, chunk)

    def send_headers(self) -> None:
        """The answer's headers."""
        if self.status.startswith(b"429"):  # type: ignore[arg-type]
            self.close_connection = True  # what it has sent already beyond its rate is not even read
        for name, value in self.outheaders:
            if name.lower() == b"content-type" and value.startswith(b"text/event-stream"):
                self.conn.streams = self.close_connection = True
        self._sending(super().send_headers)

    def _whole(self, length: int) -> bytes:
        body: bytes = self.conn.rfile.read(length) if length else b""
        if len(body) != length:
            raise ValueError("the body ends early")
        return body

    def _sending(self, how: Callable[..., None], *words: bytes) -> None:
        # An answer's time is that of all of it; a stream has no end, and each message has its own.
        if self.conn.waiting is None:
            self.conn.sending = True
            self.conn.await_client()
        try:
            how(*words)
        finally:
            if self.conn.streams:
                self.conn.waiting = None


Connection.RequestHandlerClass = Request


class TLS(BuiltinSSLAdapter):
    """TLS whose handshake is the connection's own affair: cheroot would accept no other meanwhile.

    A certificate that is renewed in its place holds for the next connection.
    """

    def __init__(self, certificate: str, private_key: str) -> None:
        """:raises OSError: when one of them cannot be read; SSLError, which is one, when they do not fit each other"""
        self._files = certificate, private_key
        self._mark = self._of_now()  # before they are read: what changes then is read again
        super().__init__(certificate, private_key)

    def wrap(self, sock: socket.socket) -> tuple[ssl.SSLSocket, dict[str, str]]:
        """The socket, and what its requests have in their environment."""
        self._renew()
        wrapped = self.context.wrap_socket(sock, do_handshake_on_connect=False, server_side=True)
        return wrapped, {"wsgi.url_scheme": "https", "HTTPS": "on"}

    def _renew(self) -> None:
        mark = self._of_now()
        if mark == self._mark:
            return
        self._mark = mark
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        try:
            context.load_cert_chain(*self._files)
        except OSError as error:  # one of the two may be new and the other not yet
            LOG.warning("%s has changed and cannot be used yet, the one before is: %s", self._files[0], error)
            return
        self.context = context
        LOG.info("%s has changed and is used", self._files[0])

    def _of_now(self) -> tuple[tuple[int, ...], ...] | None:
        """Changes with either file; None while one is not there."""
        try:
            return tuple(map(file_mark, self._files))
        except OSError:
            return None


class Gateway(wsgi.Gateway_10):
    """WSGI, with a way for the application to say that it knows the caller."""

    def get_environ(self) -> dict[str, Any]:  # type: ignore[override]
        """The environment of a request."""
        connection = self.req.conn

        def known() -> None:
            connection.known = True

        return {**super().get_environ(), KNOWN: known, THERE: connection.there}  # type: ignore[no-untyped-call]


class Waiters:
    """Connections that threads work at, and who of them is hung up on.

    ``clock`` counts the seconds in which this process was not short of processors: on a busy machine a thread may have
    no time to read what has long come, and that is not its client's fault.
    """

    def __init__(self, now: float) -> None:
        self._lock = threading.Lock()
        self._all: set[Connection] = set()
        self._looked = now
        self.clock = 0.0

    def add(self, one: Connection) -> None:
        """A thread has taken it up."""
        with self._lock:
            self._all.add(one)

    def discard(self, one: Connection) -> None:
        """It has no thread any more."""
        with self._lock:
            self._all.discard(one)

    def look(self, queued: int, now: float) -> list[Connection]:
        """Whose time is over, and for each of ``queued`` without a thread one who keeps a thread waiting."""
        self.clock += min(now - self._looked, LOOK_MOST)
        self._looked = now
        with self._lock:
            found = [(one, now - one.waiting) for one in self._all if one.waiting is not None and not one.hung_up]
            working = len(self._all)
        late = [one for one, age in found if age > (ANSWER_MOST if one.sending else REQUEST_MOST)]
        if not queued:
            return late
        short = SHORT if queued <= working else max(SHORTEST, SHORT * working / queued)
        patient = [(one, self.clock - one.since) for one, _ in found if not one.streams and one not in late]
        others = [(one.known, -age, id(one), one) for one, age in patient if age > short and one.idle()]
        return late + [one for *_, one in sorted(others)[:queued]]


class Server(wsgi.Server):
    """cheroot's, with a thread that looks after those who keep the others waiting."""

    ConnectionClass = Connection

    def __init__(self, *words: Any, **more: Any) -> None:
        super().__init__(*words, **more)
        self.gateway = Gateway
        self.waiters = Waiters(time.monotonic())
        self._ended = threading.Event()

    def serve(self) -> None:
        """Serve until stopped."""
        threading.Thread(target=self._watch, name="waiters", daemon=True).start()
        super().serve()

    def stop(self) -> None:
        """End it."""
        self._ended.set()
        super().stop()

    def _watch(self) -> None:
        while not self._ended.wait(EVERY):
            for one in self.waiters.look(max(0, self.requests.qsize - self.requests.idle), time.monotonic()):
                one.hang_up()


def _unchunked(file: Any, most: int) -> bytes:
    """All of a body that comes in chunks.

    :raises MaxSizeExceeded: when it has more than ``most`` bytes, or twice as many with what is around the chunks
    :raises ValueError: when it is none
    """
    try:
        found: bytes = server.ChunkedRFile(server.SizeCheckWrapper(file, 2 * most), 2 * most).read(most + 1)
    except OSError as error:
        if error.args == ("Request Entity Too Large",):  # cheroot's, of a chunk; all others have a number
            raise errors.MaxSizeExceeded from None
        raise
    if len(found) > most:
        raise errors.MaxSizeExceeded
    return found
