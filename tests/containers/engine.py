"""A Docker engine and its compose plugin as Debian 13 has them, in namespaces of their own.

Network, mounts, processes and everything that the engine keeps are its own, so nothing of it stays and nothing of this
machine's Docker is touched. It has this machine's kernel and cgroups. What it builds reaches what this machine reaches,
by slirp4netns, and nothing of this machine itself.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

from lab import leftovers
from lab.debian_root import debian_root
from lab.errors import BootError, WorkError
from lab.programs import find
from lab.started import Started
from lab.waiting import wait_for

RELEASE = "trixie"
PACKAGES = ("docker.io", "docker-cli", "docker-compose", "iptables", "ca-certificates", "procps", "iproute2")
STARTS_WITHIN = 120.0
COMMAND_DEADLINE = 1200.0  # seconds; what it builds takes minutes
_ENVIRONMENT = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LC_ALL": "C.UTF-8"}
_ENDS_WITH_US = ("setpriv", "--pdeathsig", "KILL", "--")
# Run in new namespaces: the overlay goes with them. What the engine keeps is beside it, for an overlay on an overlay
# is not to be had. chroot alone would not do: whoever enters a mount namespace comes to its root.
_START = """
set -e
mount -t overlay overlay -o "lowerdir=$1,upperdir=$2/upper,workdir=$2/work" "$2/root"
parent=$3; kept=$2/docker
cd "$2/root"
mount --bind . .
cd "$PWD"
mkdir -p var/lib/docker
mount --bind "$kept" var/lib/docker
mount --rbind /dev dev
mount --rbind /sys sys
mount -t proc proc proc
mount -t tmpfs -o mode=755 tmpfs run
ip link set lo up
pivot_root . mnt
exec chroot . /bin/sh -c 'umount -l /mnt && exec docker-init -- dockerd --cgroup-parent "$1"' sh "$parent"
"""


class Engine(Started):
    """A running engine; use it in a with statement."""

    def __init__(self, files: Mapping[str, Path]) -> None:
        """:param files: absolute path inside to the folder here that is copied there"""
        self._files = dict(files)
        self._folder = leftovers.scratch("engine", "/var/tmp")
        self._cgroup = f"memhint-engine-{self._folder.name.rpartition('-')[2]}"
        self._process: subprocess.Popen[bytes] | None = None
        self._network: subprocess.Popen[bytes] | None = None
        self._init = 0

    def start(self) -> None:
        """Start it, and wait until it answers.

        :raises BootError: when it ends instead
        :raises ImageError: when its root directory cannot be made
        """
        root = debian_root(RELEASE, PACKAGES)
        for name in ("upper", "work", "root", "docker"):
            (self._folder / name).mkdir()
        for inside, here in self._files.items():
            shutil.copytree(here, self._folder / "upper" / inside.lstrip("/"), symlinks=True)
        etc = self._folder / "upper" / "etc"
        etc.mkdir(exist_ok=True)
        shutil.copyfile("/etc/resolv.conf", etc / "resolv.conf")
        argv = [
            *_ENDS_WITH_US, find("unshare"), "--mount", "--propagation", "private", "--net", "--pid", "--fork",
            "--kill-child", "--uts", "--ipc", "--", "/bin/sh", "-c", _START,
            "start", str(root), str(self._folder), self._cgroup,
        ]  # fmt: skip
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env={**os.environ, **_ENVIRONMENT}
            )
        wait_for(self._answers, STARTS_WITHIN, "the Docker engine to answer", 0.5, self._tail)
        with self._log.open("ab") as log:
            way = ("--configure", "--mtu=1400", "--disable-host-loopback", str(self._init), "tap0")
            self._network = subprocess.Popen(
                [*_ENDS_WITH_US, find("slirp4netns"), *way], stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        wait_for(lambda: self.run("ip", "route", "get", "192.0.2.1").returncode == 0, STARTS_WITHIN, "a way out", 0.2)

    def run(self, *words: str, folder: str = "/", stdin: IO[bytes] | None = None) -> subprocess.CompletedProcess[str]:
        """A command in its root directory and namespaces."""
        enter = [find("nsenter"), "-t", str(self._init), "-m", "-u", "-i", "-n", "-p", "--"]
        return subprocess.run(
            [*enter, "/usr/bin/env", "-C", folder, *words],
            stdin=stdin or subprocess.DEVNULL, capture_output=True, text=True, errors="replace", env=_ENVIRONMENT,
            timeout=COMMAND_DEADLINE, check=False,
        )  # fmt: skip

    def check(self, *words: str, folder: str = "/", stdin: IO[bytes] | None = None) -> str:
        """What a command printed; WorkError with all that it said, unless it ended with 0."""
        done = self.run(*words, folder=folder, stdin=stdin)
        if done.returncode:
            raise WorkError(f"{words} ended with {done.returncode}: {done.stdout[-3000:]}{done.stderr[-3000:]}")
        return done.stdout

    def network(self, *words: str) -> list[str]:
        """Words of a command of this machine that has the engine's network."""
        return [find("nsenter"), "-t", str(self._init), "-n", "--", *words]

    def load(self, file: Path) -> None:
        """Take an image from a file, which goes."""
        with file.open("rb") as content:
            self.check("docker", "load", "-q", stdin=content)
        file.unlink()

    def close(self) -> None:
        """End it, and remove all that it kept."""
        if self._init:
            # Containers end in order, and so their mounts and cgroups go.
            with suppress(subprocess.TimeoutExpired, WorkError):
                running = self.check("docker", "ps", "-q").split()
                if running:
                    self.check("docker", "kill", *running)
        if self._network is not None:
            self._network.kill()
            self._network.wait()
        if self._process is not None:
            self._process.kill()  # and with it all that is in its namespaces
            self._process.wait(30.0)
        wait_for(self._cgroups_gone, 30.0, "the cgroups of the engine's containers to go")
        shutil.rmtree(self._folder, ignore_errors=True)

    @property
    def _log(self) -> Path:
        return self._folder / "engine.log"

    def _tail(self) -> str:
        return self._log.read_text(errors="replace")[-3000:]

    def _answers(self) -> bool:
        assert self._process is not None
        if self._process.poll() is not None:
            raise BootError(f"the Docker engine ended with {self._process.returncode}: {self._tail()}")
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text().split()
        for child in children:
            with suppress(OSError):
                if Path(f"/proc/{child}/comm").read_text().strip() == "docker-init":
                    self._init = int(child)
        return self._init != 0 and self.run("docker", "version").returncode == 0

    def _cgroups_gone(self) -> bool:
        left: Sequence[Path] = [
            path
            for top in (Path("/sys/fs/cgroup"), *Path("/sys/fs/cgroup").iterdir())
            if (path := top / self._cgroup).is_dir()
        ]
        for top in left:
            for folder, _, _ in os.walk(top, topdown=False):
                with suppress(OSError):
                    os.rmdir(folder)
        return not any(top.exists() for top in left)
