"""The processes of a control plane: started in its cgroup, known to whoever attaches, and ended one by one."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from lab.cgroup import HostCgroup
from lab.errors import Timeout
from lab.openstack.errors import ServiceFailed
from lab.process import Process
from lab.waiting import wait_for

_CONFINE = Path(__file__).resolve().parents[1] / "confine.py"


class Processes:
    """Each is a session of its own, known by the name of its service."""

    def __init__(self, directory: Path, cgroup: HostCgroup) -> None:
        """:param directory: holds what they print, and the record of them"""
        self.directory = directory
        self.cgroup = cgroup
        self._file = directory / "processes.json"
        self._lock = threading.Lock()
        self._children: list[subprocess.Popen[bytes]] = []

    def start(self, name: str, argv: Sequence[str], environment: Mapping[str, str]) -> Process:
        """Start a service's process; ServiceFailed when it runs already or ends at once."""
        if self.alive(name):
            raise ServiceFailed(f"{name} runs already")
        confine = [sys.executable, "-I", "-S", str(_CONFINE)]
        for path in self.cgroup.paths:
            confine += ["--cgroup", str(path)]
        with self.output(name).open("ab") as out:
            child = subprocess.Popen(
                [*confine, "--", *argv],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                env=dict(environment),
                cwd="/",
                start_new_session=True,
            )
        return self.adopt(name, child)

    def adopt(self, name: str, child: subprocess.Popen[bytes]) -> Process:
        """Record a process that somebody else has started."""
        self._children.append(child)
        process = Process.of(child.pid)
        if process is None:
            raise ServiceFailed(f"{name} ended at once: {self.tail(name)}")
        with self._lock:
            known = self._known()
            known[name] = process
            fresh = self._file.with_suffix(".new")
            fresh.write_text(json.dumps({name: asdict(one) for name, one in known.items()}, indent=1))
            fresh.rename(self._file)
        return process

    def alive(self, name: str) -> bool:
        """Whether the service's process is there."""
        process = self.process(name)
        return process is not None and process.alive

    def process(self, name: str) -> Process | None:
        """The service's newest process, also when it has ended."""
        return self._known().get(name)

    def end(self, name: str, how: signal.Signals = signal.SIGTERM, patience: float = 30.0) -> None:
        """Signal the process and its children, and wait until it has ended; it is killed after `patience` seconds."""
        process = self.process(name)
        if process is None or not process.alive:
            return
        for number, seconds in ((how, patience), (signal.SIGKILL, 10.0)):
            with suppress(ProcessLookupError):
                os.killpg(process.pid, number)
            with suppress(Timeout):
                wait_for(lambda: not process.alive, seconds, f"{name} to end")
                break
        else:
            raise ServiceFailed(f"{name} did not end on SIGKILL")
        # What it left running belongs to it.
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        self.reap()

    def reap(self) -> None:
        """Collect those that this process started and that have ended."""
        self._children = [child for child in self._children if child.poll() is None]

    def output(self, name: str) -> Path:
        """Where what it prints goes; services that keep a log of their own print little."""
        return self.directory / f"{name}.out"

    def tail(self, name: str) -> str:
        """The end of what a service has said."""
        said = []
        for file in (self.directory / f"{name}.log", self.output(name)):
            if file.exists():
                said += file.read_text(errors="replace").splitlines()[-15:]
        return "\n".join(said) or "it said nothing"

    def _known(self) -> dict[str, Process]:
        try:
            return {name: Process(**one) for name, one in json.loads(self._file.read_text()).items()}
        except FileNotFoundError:
            return {}
