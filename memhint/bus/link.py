"""A connection to RabbitMQ: where, as whom, with which certificates, and how long to wait before the next attempt."""

from __future__ import annotations

import random
import ssl
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pika
from pika.adapters.utils.connection_workflow import AMQPConnectorException
from pika.exceptions import AMQPConnectionError, AMQPError

from memhint.backoff import Backoff
from memhint.bus.errors import BusError

# What pika lets through when a broker goes away in the middle of something, or takes a connection and says nothing.
LOST = (AMQPError, AMQPConnectorException, OSError, EOFError)
FIRST_WAIT = 0.5  # seconds


@dataclass(frozen=True, slots=True)
class LinkSettings:
    """How to reach the broker. Seconds; files are paths, empty where the system's own hold.

    ``blocked`` is how long a broker without memory or disk may keep somebody waiting; None: as long as ``heartbeat``.
    """

    urls: tuple[str, ...]
    ca_file: str = ""
    cert_file: str = ""
    key_file: str = ""
    timeout: float = 10.0
    heartbeat: int = 30
    backoff_max: float = 60.0
    blocked: float | None = None

    @property
    def answer(self) -> float:
        """Seconds in which a broker that is well has answered anything, also while one of its nodes is replaced."""
        return max(60.0, 2.0 * self.heartbeat)


_decode_table = pika.data.decode_table
_decode_properties = pika.BasicProperties.decode


def _forgiving(encoded: bytes, offset: int) -> tuple[dict[str | bytes, Any], int]:
    """A header table, empty where pika cannot read it. What follows it is read from where it ends by its own length."""
    (size,) = struct.unpack_from(">I", encoded, offset)
    try:
        table, _ = _decode_table(encoded, offset)
    except Exception:  # noqa: BLE001  a moment beyond the year 9999, tables too deep, or what else a sender thinks of
        table = {}
    return table, offset + 4 + size


# The broker hands on any table of a message, memhint uses none, and pika ends the connection where it cannot read one.
pika.data.decode_table = _forgiving


def _as_the_broker(properties: pika.BasicProperties, encoded: bytes, offset: int = 0) -> pika.BasicProperties:
    """The properties that RabbitMQ has read, which looked at the sender's name.

    It ignores the last two bits of the flags. To pika the last one says that more flags follow: so it would read the
    rest from another place, and may be shown any name there.
    """
    flags = bytes((encoded[offset], encoded[offset + 1] & 0xFC))
    return _decode_properties(properties, encoded[:offset] + flags + encoded[offset + 2 :], offset)


pika.BasicProperties.decode = _as_the_broker


def user_of(settings: LinkSettings) -> str:
    """The user as whom this process speaks.

    :raises BusError: when the URLs do not agree or cannot be read
    """
    users = {str(one.credentials.username) for one in parameters(settings)}
    if len(users) != 1:
        raise BusError("[bus] urls name several users: use one")
    return users.pop()


def parameters(settings: LinkSettings) -> list[pika.URLParameters]:
    """The nodes of the broker, in a random order, so that agents spread over them.

    :raises BusError: when a URL or a certificate cannot be read
    """
    found = []
    for number, url in enumerate(settings.urls, 1):
        try:
            one = pika.URLParameters(url)
            if url.startswith("amqps:"):
                one.ssl_options = pika.SSLOptions(_context(settings), one.host)
        except (ValueError, TypeError, OSError) as error:  # the URL has the password: it is not said
            raise BusError(f"URL {number} of [bus] urls, or a file it needs, cannot be used: {_short(error)}") from None
        one.heartbeat = settings.heartbeat
        one.socket_timeout = one.stack_timeout = settings.timeout
        one.blocked_connection_timeout = settings.heartbeat if settings.blocked is None else settings.blocked
        one.connection_attempts = 1
        found.append(one)
    random.shuffle(found)
    return found


def connect(settings: LinkSettings) -> pika.BlockingConnection:
    """A connection to the first node that answers.

    :raises BusError: when the settings cannot be used, or no node can be reached; the text says why
    """
    nodes = parameters(settings)
    try:
        return pika.BlockingConnection(nodes)
    except Exception as error:  # of a broker that hangs up in the first moment pika tells by ValueError, too
        where = " or ".join(f"{one.host}:{one.port}" for one in nodes)
        raise BusError(f"the broker cannot be reached at {where}: {_short(error)}; see [bus] urls") from error


@contextmanager
def within(connection: pika.BlockingConnection, seconds: float) -> Iterator[None]:
    """Hang up where the broker takes longer for what is asked of it here.

    A message to a queue that loses its leader may never be confirmed. Pika waits for as long as there are heartbeats.

    :raises pika.exceptions.AMQPConnectionError: from what waits, when time is up
    """
    made = connection._impl
    late = AMQPConnectionError(f"no answer within {seconds:g} s")
    timer = made._adapter_call_later(seconds, lambda: made._terminate_stream(late))
    try:
        yield
    finally:
        made._adapter_remove_timeout(timer)


class Reconnects:
    """Waits that double up to a maximum, each shortened at random so that a fleet does not come back at once."""

    def __init__(self, most: float, draw: Callable[[], float] = random.random) -> None:
        self._backoff = Backoff(FIRST_WAIT, most)
        self._draw = draw
        self._failures = 0

    def wait(self) -> float:
        """Seconds until the next attempt."""
        self._failures += 1
        return self._backoff.pause_s(self._failures) * (0.5 + self._draw() / 2)

    def reset(self) -> None:
        """It worked: the next wait is the first again."""
        self._failures = 0


def _context(settings: LinkSettings) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=settings.ca_file or None)
    if settings.cert_file:
        context.load_cert_chain(settings.cert_file, settings.key_file or None)
    return context


def _short(error: BaseException) -> str:
    inner = getattr(error, "args", ())
    cause = inner[0] if inner and isinstance(inner[0], BaseException) else error
    return f"{type(cause).__name__}: {cause}"[:300] if str(cause) else repr(error)[:300]
