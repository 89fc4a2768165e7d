"""What the servers under test have in common: a directory, a user who is not root, and an end that leaves nothing."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

PATIENCE = 90.0  # seconds for a server to come up on a machine that is busy with something else


class ServerFailed(Exception):
    """A server that a test needs did not come up."""


class Place:
    """A short path (sockets' names are limited) that belongs to the user who runs the server."""

    def __init__(self, name: str) -> None:
        self.path = Path(tempfile.mkdtemp(prefix=f"memhint-{name}-", dir="/tmp"))
        # Database servers refuse to run as root, and no test should need to.
        self.user = pwd.getpwnam("nobody").pw_uid if os.geteuid() == 0 else None
        self.own(self.path)

    def own(self, path: Path) -> None:
        if self.user is not None:
            os.chown(path, self.user, -1)

    def write(self, name: str, text: str, mode: int = 0o600) -> Path:
        path = self.path / name
        path.write_text(text)
        path.chmod(mode)
        self.own(path)
        return path

    def run(self, command: Sequence[str], env: Mapping[str, str] | None = None) -> str:
        done = subprocess.run(
            command, cwd=self.path, env=self._env(env), user=self.user, capture_output=True, text=True, timeout=PATIENCE
        )
        if done.returncode:
            raise ServerFailed(f"{command[0]}: {done.stdout[-2000:]}{done.stderr[-2000:]}")
        return done.stdout

    def start(self, command: Sequence[str], env: Mapping[str, str] | None = None) -> subprocess.Popen[bytes]:
        with (self.path / "log").open("ab") as log:
            return subprocess.Popen(
                command,
                cwd=self.path,
                env=self._env(env),
                user=self.user,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def log(self) -> str:
        return (self.path / "log").read_text(errors="replace")[-3000:]

    def remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)

    def _env(self, more: Mapping[str, str] | None) -> dict[str, str]:
        return {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": str(self.path), "LC_ALL": "C.UTF-8", **(more or {})}


def wait_until(true: Callable[[], bool], what: str, process: subprocess.Popen[bytes] | None = None) -> None:
    """Wait for a condition; an end of the process meanwhile is a failure."""
    end = time.monotonic() + PATIENCE
    while not true():
        if process is not None and process.poll() is not None:
            raise ServerFailed(f"{what}: it ended with {process.returncode}")
        if time.monotonic() > end:
            raise ServerFailed(f"{what}: not within {PATIENCE:g} s")
        time.sleep(0.05)


def kill(process: subprocess.Popen[bytes] | None, how: signal.Signals = signal.SIGKILL) -> None:
    """End a server and its children: they are a session of their own."""
    if process is None:
        return
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, how)
    process.wait(PATIENCE)
