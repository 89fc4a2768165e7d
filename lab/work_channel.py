"""Requests to the workload program of a guest, over the Unix socket of its virtio-serial port."""

from __future__ import annotations

import fcntl
import json
import secrets
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lab.errors import WorkError


class WorkChannel:
    """One request at a time: QEMU serves one client of the port, and a second would wait unheard."""

    def __init__(self, path: Path, guest: str) -> None:
        self._path = path
        self._guest = guest

    def request(self, command: str, deadline: float, running: Callable[[], bool]) -> dict[str, Any]:
        """The answer to `command` within `deadline` seconds; WorkError when refused, late, or the guest is gone."""
        if "\n" in command or len(command) > 4000:
            raise WorkError(f"{self._guest}: a request is one line of at most 4000 characters")
        end = time.monotonic() + deadline
        tag = secrets.token_hex(4)
        with self._path.with_suffix(".lock").open("w") as lock:
            self._lock(lock.fileno(), end, command)
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
                try:
                    self._connect(client, end, running)
                    client.sendall(f"\n@{tag} {command}\n".encode())
                    answer = self._answer(client, tag, end, running)
                except OSError as reason:
                    raise WorkError(f"{self._guest}: {command}: {reason}: is the guest running?") from reason
        if answer is None:
            raise WorkError(
                f"{self._guest}: no answer to {command!r}"
                + (f" within {deadline:g} s" if running() else ": the guest has ended")
            )
        if not answer.pop("ok", False):
            raise WorkError(f"{self._guest}: {command}: {answer.get('error', 'refused')}")
        answer.pop("id", None)
        return answer

    def _lock(self, descriptor: int, end: float, command: str) -> None:
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                if time.monotonic() > end:
                    raise WorkError(f"{self._guest}: {command}: the guest is still busy with another request") from None
                time.sleep(0.02)

    def _connect(self, client: socket.socket, end: float, running: Callable[[], bool]) -> None:
        # A QEMU that has just started has no socket yet, and one that has been named does not listen at once.
        while True:
            try:
                return client.connect(str(self._path))
            except (FileNotFoundError, ConnectionRefusedError):
                if not running() or time.monotonic() > end:
                    raise
            time.sleep(0.02)

    @staticmethod
    def _answer(client: socket.socket, tag: str, end: float, running: Callable[[], bool]) -> dict[str, Any] | None:
        buffer = b""
        while (left := end - time.monotonic()) > 0:
            # Wakes up every second: a guest killed in the middle closes the socket only if its QEMU did so in order.
            client.settimeout(min(1.0, left))
            try:
                chunk = client.recv(65536)
            except TimeoutError:
                if not running():
                    return None
                continue
            if not chunk:
                return None
            buffer += chunk
            while b"\n" in buffer:
                line, _, buffer = buffer.partition(b"\n")
                try:
                    answer = json.loads(line)
                except ValueError:
                    continue  # the tail of an answer whose reader went away
                if isinstance(answer, dict) and answer.get("id") == tag:
                    return answer
        return None
