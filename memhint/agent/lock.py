"""One agent per host: it holds a name in the kernel that goes when the process ends, however it ends."""

from __future__ import annotations

import socket


class AlreadyRunning(Exception):
    """Another agent serves this host."""


class HostLock:
    """Held from ``take`` to the end of the process, or to ``release``."""

    def __init__(self, host: str) -> None:
        self._name = f"\0memhint-agent/{host}"
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
