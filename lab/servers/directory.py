"""What the servers have in common: a directory, a user who is not root, and an end that leaves nothing."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from lab import leftovers
from lab.errors import LabError

PATIENCE = 300.0  # seconds for a server to come up on a machine that is busy with something else
_CONFINE = Path(__file__).resolve().parents[1] / "confine.py"
_MEMORY = Path("/dev/shm")
_ROOM = 2 << 30  # bytes: some servers side by side, and a container's 64 MiB are none


class ServerFailed(LabError):
    """A server did not come up."""


class ServerDirectory:
    """A short path (sockets' names are limited) that belongs to the user who runs the server."""

    def __init__(self, path: Path, cgroups: Sequence[Path] = ()) -> None:
        """:param path: made unless it is there; everybody may enter the directories above it
        :param cgroups: directories of the cgroups that what is started here belongs to
        """
        self.path = path
        self._cgroups = tuple(cgroups)
        # Database servers refuse to run as root, and none needs to.
        self.user = pwd.getpwnam("nobody").pw_uid if os.geteuid() == 0 else None
        if not path.exists():
            path.mkdir(mode=0o700, parents=True)
        if self.user is not None:
            os.chown(path, self.user, -1)  # not what is in it: an earlier server may be running there

    @classmethod
    def temporary(cls, name: str) -> ServerDirectory:
        """A new one, in memory where there is room: a database is hundreds of files, made and removed for each test."""
        return cls(leftovers.scratch(name, _parent()))

    def own(self, path: Path) -> None:
        """Give a file, or a directory and all in it, to the server's user."""
        if self.user is not None:
            for one in (path, *(path.rglob("*") if path.is_dir() else ())):
                os.chown(one, self.user, -1)

    def write(self, name: str, text: str, mode: int = 0o600) -> Path:
        """A file of the server's user, with this text."""
        path = self.path / name
        path.unlink(missing_ok=True)  # it may be one that not even its owner may write
        path.write_text(text)
        path.chmod(mode)
        self.own(path)
        return path

    def run(self, command: Sequence[str], env: Mapping[str, str] | None = None) -> str:
        """What a command that ends by itself printed; ServerFailed when it fails."""
        done = subprocess.run(
            command,
            cwd=self.path,
            env=self._env(env),
            user=self.user,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        if done.returncode:
            raise ServerFailed(f"{command[0]}: {done.stdout[-2000:]}{done.stderr[-2000:]}")
        return done.stdout

    def start(self, command: Sequence[str], env: Mapping[str, str] | None = None) -> subprocess.Popen[bytes]:
        """A process that stays: a session of its own, as the server's user, in the cgroups."""
        confine = [sys.executable, "-I", "-S", str(_CONFINE)]
        for path in self._cgroups:
            confine += ["--cgroup", str(path)]
        if self.user is not None:
            confine += ["--user", str(self.user)]
        with (self.path / "log").open("ab") as log:
            self.own(self.path / "log")
            return subprocess.Popen(
                [*confine, "--", *command],
                cwd=self.path,
                env=self._env(env),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def log(self) -> str:
        """The end of what the server said."""
        return (self.path / "log").read_text(errors="replace")[-3000:]

    def remove(self) -> None:
        """Take the directory away."""
        shutil.rmtree(self.path, ignore_errors=True)

    def _env(self, more: Mapping[str, str] | None) -> dict[str, str]:
        return {
            "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
            "HOME": str(self.path),
            "LC_ALL": "C.UTF-8",
            **_owner(),
            **(more or {}),
        }


def _owner() -> dict[str, str]:
    """Whose server it is, so that it is found when its owner was killed."""
    return {leftovers.OWNER: os.environ[leftovers.OWNER]} if leftovers.OWNER in os.environ else {}


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


def _parent() -> str:
    with contextlib.suppress(OSError):
        if os.path.ismount(_MEMORY) and os.access(_MEMORY, os.W_OK) and shutil.disk_usage(_MEMORY).free >= _ROOM:
            return str(_MEMORY)
    return "/tmp"
