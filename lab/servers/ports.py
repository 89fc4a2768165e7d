"""Ports on loopback for servers that are started a moment later."""

from __future__ import annotations

import fcntl
import random
import socket
from contextlib import suppress
from pathlib import Path
from typing import IO

_PORTS = (20_000, 32_000)  # below those that Linux gives to whoever asks for any
_CLAIMS = Path("/tmp/memhint-ports")
_given: dict[int, IO[bytes]] = {}  # by this process, each with the lock that keeps others from it


def free_ports(number: int) -> list[int]:
    """Ports that nobody listens on just now, of those that the kernel gives to no outgoing connection meanwhile.

    No other process is given one of them while this one runs: who takes it may not listen yet.
    """
    found: list[int] = []
    while len(found) < number:
        port = random.randrange(*_PORTS)
        if port in _given or not _claimed(port):
            continue
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            found.append(port)
    return found


def _claimed(port: int) -> bool:
    """Take a port for this process, unless another has it. A lock ends with its process, however that ends."""
    _CLAIMS.mkdir(mode=0o777, exist_ok=True)
    claim = (_CLAIMS / str(port)).open("wb")
    try:
        fcntl.flock(claim, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        claim.close()
        return False
    _given[port] = claim
    return True
