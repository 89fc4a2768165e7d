"""The stream of changes as a client wants it: it goes on over lost connections, and says when to begin again."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from memhint.client.body import parsed
from memhint.client.errors import ApiError, BadAnswer, ClientError, Expired, ServerFailed, TooMany, Unreachable
from memhint.client.sse import Message, TooLong, messages
from memhint.client.transport import Transport

PATIENCE = 45.0  # seconds of silence after which a stream is lost; the server says something every 15 s
_WAIT = 1.0
_WAIT_MOST = 30.0


@dataclass(frozen=True, slots=True)
class Connected:
    """The stream stands (again); what happens from here on is told."""


@dataclass(frozen=True, slots=True)
class Disconnected:
    """The stream is lost; it is tried again in so many seconds."""

    why: str
    seconds: float


@dataclass(frozen=True, slots=True)
class ChangesLost:
    """What happened meanwhile cannot be told any more: read everything again."""


@dataclass(frozen=True, slots=True)
class HostsChanged:
    """Hosts as they are now, and the names of those that are no more."""

    hosts: Sequence[Mapping[str, Any]]
    deleted: Sequence[str]


@dataclass(frozen=True, slots=True)
class EventReceived:
    """An event."""

    event: Mapping[str, Any]


News = Connected | Disconnected | ChangesLost | HostsChanged | EventReceived


def follow(transport: Transport, since: str | None, sleep: Callable[[float], None] = time.sleep) -> Iterator[News]:
    """What changes, for ever. The first connection must succeed; a later one is tried again and again.

    :param since: ``changed`` of a list of hosts, from which on it is told; None: from now on
    :raises ClientError: when it does not begin, or when the caller may not (any more)
    """
    last, stood, wait = since, False, _WAIT
    while True:
        here = False
        try:
            with transport.stream("/v1/stream", last, PATIENCE) as pieces:
                stood = here = True
                yield Connected()
                for message in messages(pieces):
                    last, wait = message.id or last, _WAIT
                    news = _news(message)
                    if news is not None:
                        yield news
            why = "the stream has ended"
        except Expired:
            if last is None:
                raise
            last, stood = None, True
            yield ChangesLost()
            continue
        except (Unreachable, ServerFailed, TooMany, TooLong, BadAnswer) as error:
            # A page of a proxy while the API is away is one more loss; a stream that tells nonsense tells it again.
            if not stood or (here and isinstance(error, BadAnswer)):
                raise error if isinstance(error, ClientError) else BadAnswer(str(error)) from error
            why = error.detail if isinstance(error, ApiError) else str(error)
            if isinstance(error, ApiError) and error.retry_after is not None:
                wait = max(wait, min(error.retry_after, _WAIT_MOST))
        yield Disconnected(why, wait)
        sleep(wait)
        wait = min(2 * wait, _WAIT_MOST)


def _news(message: Message) -> News | None:
    """A message's meaning; None where it has none for us."""
    if message.kind not in ("hosts", "event"):
        return None
    found = parsed(message.data)
    if not isinstance(found, dict):
        raise BadAnswer("the stream holds a message that is no JSON object")
    if message.kind == "event":
        return EventReceived(found)
    hosts, deleted = found.get("hosts"), found.get("deleted")
    if not isinstance(hosts, list) or not isinstance(deleted, list) or not all(isinstance(one, dict) for one in hosts):
        raise BadAnswer("the stream tells of hosts and names none")
    return HostsChanged(hosts, deleted)
