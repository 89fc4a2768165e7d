"""Servers that take their time, for tests of limits."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator


@contextlib.contextmanager
def trickling(head: bytes) -> Iterator[str]:
    """Sends this, then a byte at a time, each well within the timeout of one read. One client; gives the address."""
    stop = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def trickle() -> None:
            taken, _ = listening.accept()
            with taken, contextlib.suppress(ConnectionError):
                taken.recv(65536)
                taken.sendall(head)
                while not stop.wait(0.05):
                    taken.sendall(b" ")

        threading.Thread(target=trickle, daemon=True).start()
        try:
            yield _address(listening)
        finally:
            stop.set()


@contextlib.contextmanager
def mute() -> Iterator[str]:
    """Takes connections, as the kernel does for whoever listens, and says nothing. Gives the address."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield _address(listening)


def _address(listening: socket.socket) -> str:
    return f"http://127.0.0.1:{listening.getsockname()[1]}"
