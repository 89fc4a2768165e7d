"""A whole Debian with systemd as its first process, in namespaces of this machine: apt, units, journal, libvirt, QEMU.

It shares the machine's kernel. Its cgroups are version 2 as systemd mounts it, with those controllers that the machine
has not given to version 1; where none is left, libvirt makes no slice for VMs. It has no network but loopback. What is
run in it is a shell's commands, as an administrator types them; what they write goes with it.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from lab import leftovers
from lab.debian_root import HOST_PACKAGES, debian_root
from lab.errors import BootError, WorkError
from lab.programs import find
from lab.started import Started
from lab.waiting import wait_for

BOOT_DEADLINE = 300.0
COMMAND_DEADLINE = 300.0  # seconds
_ENVIRONMENT = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LC_ALL": "C.UTF-8"}
# Run in a mount namespace of its own: the overlay goes with it. None of it has to last, so nobody waits for the disk.
_START = """
set -e
mount -t overlay overlay -o "lowerdir=$1,upperdir=$2/upper,workdir=$2/work,volatile" "$2/root"
directory=$2; shift 2
exec systemd-nspawn --quiet --register=no --keep-unit --directory="$directory/root" --private-network --capability=all \
    --console=pipe "$@" --boot systemd.mask=libvirt-guests.service
"""


@dataclass(frozen=True, slots=True)
class Done:
    """What a command inside came to."""

    code: int
    out: str
    err: str


class SystemContainer(Started):
    """A running Debian; use it in a with statement."""

    def __init__(
        self,
        release: str = "bookworm",
        folders: Mapping[str, Path] | None = None,
        tell: Callable[[str], None] = lambda _: None,
        packages: Sequence[str] = HOST_PACKAGES,
    ) -> None:
        """:param release: one of `lab.debian_root.RELEASES`
        :param folders: path inside to folder here, which cannot be written to
        :param packages: what is installed in it
        """
        self._release = release
        self._packages = tuple(packages)
        self._folders = dict(folders or {})
        self._tell = tell
        self._folder = leftovers.scratch("system")
        self._nspawn: subprocess.Popen[bytes] | None = None
        self._init = 0

    def start(self) -> None:
        """Boot, and wait until all of its services run.

        :raises BootError: when it does not come up, or one of its services fails
        :raises ImageError: when the release's root cannot be made
        """
        root = debian_root(self._release, self._packages, tell=self._tell)
        for name in ("upper", "work", "root"):
            (self._folder / name).mkdir()
        binds = [f"--bind-ro={here}:{inside}" for inside, here in self._folders.items()]
        argv = [find("unshare"), "--mount", "--propagation", "private", "--", "/bin/sh", "-c", _START, "start"]
        with self._log.open("wb") as log:
            self._nspawn = subprocess.Popen(
                [*argv, str(root), str(self._folder), *binds],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
                env={**os.environ, "SYSTEMD_NSPAWN_UNIFIED_HIERARCHY": "1"},
            )  # fmt: skip
        self._init = wait_for(self._first_process, BOOT_DEADLINE, "systemd to be started", 0.05)
        state = wait_for(self._state, BOOT_DEADLINE, "systemd to be through with its services", 0.2)
        if state != "running":
            raise BootError(f"systemd is {state}: {self.sh('systemctl --failed --no-pager --plain').out}")

    def sh(self, command: str, deadline: float = COMMAND_DEADLINE) -> Done:
        """What a command of the shell came to, run by root; WorkError when it takes more than `deadline` seconds."""
        enter = [find("nsenter"), "-t", str(self._init), "-m", "-u", "-i", "-n", "-p", "-C", "--", "/bin/sh", "-c"]
        try:
            done = subprocess.run(
                [*enter, command],
                stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", env=_ENVIRONMENT,
                timeout=deadline, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired as reason:
            raise WorkError(f"{command!r} has not ended within {deadline:g} s") from reason
        return Done(done.returncode, done.stdout, done.stderr)

    def check(self, command: str, deadline: float = COMMAND_DEADLINE) -> str:
        """What a command printed; WorkError with all that it said, unless it ended with 0."""
        done = self.sh(command, deadline)
        if done.code:
            raise WorkError(f"{command!r} ended with {done.code}: {done.out[-2000:]}{done.err[-2000:]}")
        return done.out

    def close(self) -> None:
        """End it, with all that runs in it; its files go, too."""
        if self._init:
            with suppress(ProcessLookupError):
                os.kill(self._init, signal.SIGKILL)  # a namespace's processes end with its first
        if self._nspawn is not None:
            try:
                self._nspawn.wait(20.0)
            except subprocess.TimeoutExpired:
                self._nspawn.kill()
                self._nspawn.wait()
        shutil.rmtree(self._folder, ignore_errors=True)

    @property
    def _log(self) -> Path:
        return self._folder / "nspawn.log"

    def _first_process(self) -> int:
        """The pid here of its systemd, 0 as long as there is none."""
        assert self._nspawn is not None
        if self._nspawn.poll() is not None:
            raise BootError(f"systemd-nspawn ended with {self._nspawn.returncode}: {self._log.read_text()[-2000:]}")
        children = Path(f"/proc/{self._nspawn.pid}/task/{self._nspawn.pid}/children").read_text().split()
        for child in children:
            with suppress(OSError):
                if Path(f"/proc/{child}/comm").read_text().strip() == "systemd":
                    return int(child)
        return 0

    def _state(self) -> str:
        state = self.sh("systemctl is-system-running").out.strip()
        return state if state in ("running", "degraded", "maintenance") else ""
