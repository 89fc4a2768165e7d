"""Ports on loopback for servers that are started a moment later."""

from __future__ import annotations

import fcntl
import os
import random
import socket
import stat
from contextlib import suppress
from pathlib import Path
from typing import IO

from lab.errors import StateError

_PORTS = (20_000, 32_000)  # below those that Linux gives to whoever asks for any
_CLAIMS = Path("/tmp")
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
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    claim = os.fdopen(os.open(_claims() / str(port), flags, 0o600), "r+b")
    try:
        fcntl.flock(claim, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        claim.close()
        return False
    _given[port] = claim
    return True


def _claims() -> Path:
    """This user's directory of locks. Two users may be given one port, but neither may write where the other says.

    :raises StateError: when somebody else has made it first
    """
    folder = _CLAIMS / f"memhint-ports-{os.geteuid()}"
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    seen = folder.lstat()
    if not stat.S_ISDIR(seen.st_mode) or seen.st_uid != os.geteuid() or seen.st_mode & 0o077:
        raise StateError(f"{folder} is not a directory of this user's alone, who keeps locks there: remove it")
    return folder
