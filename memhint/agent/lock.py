"""One agent per host: it holds a name in the kernel that goes when the process ends, however it ends."""

from __future__ import annotations

import socket
from pathlib import Path

_NAME = "memhint-agent/"


class AlreadyRunning(Exception):
    """Another agent serves this host."""


class HostLock:
    """Held from ``take`` to the end of the process, or to ``release``."""

    def __init__(self, host: str) -> None:
        self._name = f"\0{_NAME}{host}"
        self._host = host
        self._socket: socket.socket | None = None

    def take(self) -> None:
        """Take it.

        :raises AlreadyRunning: when another process has it
        """
        held = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            held.bind(self._name)
        except OSError as error:
            held.close()
            raise AlreadyRunning(f"another memhint agent runs for host {self._host}: stop it first") from error
        self._socket = held

    def release(self) -> None:
        """Let go of it."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None


def is_held(host: str, sockets: Path = Path("/proc/net/unix")) -> bool:
    """Whether an agent of this host runs, as far as can be told: looking takes nothing, as trying to have it would."""
    try:
        return any(
            line.partition(f" @{_NAME}")[2] == host for line in sockets.read_text("utf-8", "replace").splitlines()
        )
    except OSError:
        return False
