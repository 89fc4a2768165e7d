"""A real server for as long as a test, or a session of tests, needs it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol, TypeVar


class _Server(Protocol):
    def start(self) -> None: ...

    def close(self) -> None: ...


ServerT = TypeVar("ServerT", bound=_Server)


@contextmanager
def running(server: ServerT) -> Iterator[ServerT]:
    """The server, started; closed in the end, also where it did not start."""
    try:
        server.start()
        yield server
    finally:
        server.close()
