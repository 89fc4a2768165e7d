"""Ports on loopback for servers that are started a moment later."""

from __future__ import annotations

import random
import socket
from contextlib import suppress

_PORTS = (20_000, 32_000)  # below those that Linux gives to whoever asks for any
_given: set[int] = set()  # by this process, to somebody who may not listen yet


def free_ports(number: int) -> list[int]:
    """Ports that nobody listens on just now, of those that the kernel gives to no outgoing connection meanwhile."""
    found: list[int] = []
    while len(found) < number:
        port = random.randrange(*_PORTS)
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            if port not in _given:
                _given.add(port)
                found.append(port)
    return found
