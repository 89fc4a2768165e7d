"""A memhint agent for a lab host: its configuration, its process, and what it reports."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lab.errors import LabError
from lab.process import Process
from lab.waiting import wait_for
from memhint.cli.exits import Exit
from memhint.objects.report import DomainReport, Report
from memhint.objects.verdict import Reason
from memhint.store.database import Store, open_store
from memhint.store.errors import StoreError, StoreMissing

if TYPE_CHECKING:
    from lab.host import Host

# What the emulated guest of a busy machine says by not answering in time; asked again, it does.
_LATE_GUEST = (f"({Reason.GUEST_TIMEOUT})", f"({Reason.NO_GUEST_AGENT})")

# A lab's time is short and its hosts are small; everything else is as shipped. Seconds, MiB and percent.
SHORT_HORIZON: Mapping[str, Mapping[str, Any]] = {
    "DEFAULT": {"period": 1},
    "host": {"reserve_mib": 256, "reserve_percent": 0, "max_ratio": 16},
    "planner": {
        "overhead_mib": 160,  # emulating guests takes QEMU more than virtualizing them
        "new_vm_decay": 6,
        "peak_half_life": 3,
        "other_window": 30,
        "fault_in_window": 10,
        "raise_percent_per_minute": 600,
        "storm_percent": 0,  # of a handful of VMs one is more than a tenth: the largest of them is what is kept for
        "cooldown": 5,
    },
    "guest": {"interval": 2, "call_timeout": 2, "backoff_base": 1, "backoff_max": 8, "max_age": 15},
    "observe": {"deep_interval": 2, "deep_cpu_percent": 5},
}


CHECKOUT = Path(__file__).resolve().parent.parent
ROLE = "agent"  # of its process, among those of its host
STOP_DEADLINE = 120.0
"""Seconds for an agent to put back what it changed and to end, on a machine that emulates guests at the same time."""
STACKS = 12_000  # characters of the log of an agent that does not end


def agent_config(
    host: Host, directory: Path, settings: Mapping[str, Mapping[str, Any]] | None = None, name: str | None = None
) -> str:
    """The text of a memhint.conf for this host; ``settings`` by group and option come before everything else.

    :param name: under which the agent reports; as `host_name` has it unless given
    """
    pressure = host.cgroup.pressure_path
    groups: dict[str, dict[str, Any]] = {
        "DEFAULT": {"host_name": name or host_name(host)},
        "host": {"memory_cgroup": host.cgroup.memory_path, "pressure_cgroup": pressure or ""},
        "virt": {"uri": host.uri, "run_dir": host.run_dir / "qemu"},
        "store": {"url": f"sqlite:///{directory / 'memhint.db'}"},
    }
    for layer in (SHORT_HORIZON, settings or {}):
        for group, options in layer.items():
            groups.setdefault(group, {}).update(options)
    sections = [
        "\n".join([f"[{group}]", *(f"{name} = {value}" for name, value in options.items()), ""])
        for group, options in groups.items()
    ]
    return "\n".join(sections)


def host_name(host: Host) -> str:
    """The name under which the agent of a lab host reports: hosts of several labs stand on one machine."""
    return f"{host.lab.name}.{host.name}"


class AgentProcess:
    """`memhint agent` as a process of its own. A context manager; it is told to end, and killed if it does not."""

    def __init__(
        self, host: Host, settings: Mapping[str, Mapping[str, Any]] | None = None, name: str | None = None
    ) -> None:
        self.host = host
        self.name = name or host_name(host)
        """Under which it reports."""
        self.directory = host.state_dir / "memhint"
        self.config = self.directory / "memhint.conf"
        self.log = self.directory / "agent.log"
        self.process: subprocess.Popen[bytes] | None = None
        self._settings = settings
        self._url = f"sqlite:///{self.directory / 'memhint.db'}"
        self._store: Store | None = None

    def __enter__(self) -> AgentProcess:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        if self._store is not None:
            self._store.close()
            self._store = None

    def configure(self, settings: Mapping[str, Mapping[str, Any]] | None) -> None:
        """Write its configuration; a running agent reads it at its next SIGHUP."""
        self._settings = settings
        self.directory.mkdir(parents=True, exist_ok=True)
        self.config.write_text(agent_config(self.host, self.directory, settings, self.name))

    def start(self) -> None:
        """Start it, and wait for its first report."""
        self.configure(self._settings)
        self._make_store()
        before = self.newest()
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self.argv("agent"),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=CHECKOUT,
                start_new_session=True,  # a ctrl-c on the terminal is for the lab to handle, the agent first
            )
        self.note(self.process.pid)
        epoch = before.epoch if before is not None else None
        wait_for(lambda: self._alive() and self._reported(epoch), 60.0, f"the first report of {self.host.name}'s agent")

    def argv(self, *words: str) -> list[str]:
        """A command of `memhint` with this agent's configuration; it is to run in the checkout."""
        # Where it hangs its stacks can be asked for.
        memhint = [sys.executable, "-X", "faulthandler", "-m", "memhint.cli.main"]
        return [*memhint, *words, "--config-file", str(self.config)]

    def note(self, pid: int) -> None:
        """Have whoever takes the lab down, also after a crash of this process, end the agent first."""
        started = Process.of(pid)
        if started is not None:
            self.host.record.processes[ROLE] = started
            self.host.save()

    def stop(self, deadline: float = STOP_DEADLINE) -> int:
        """Tell it to end, which undoes what it changed; its exit code."""
        if self.process is None:
            return 0
        self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(deadline)
        except subprocess.TimeoutExpired:
            self.process.send_signal(signal.SIGABRT)  # each of its threads says where it is
            self.process.wait()
            self.process = None
            tail = self.log.read_text(errors="replace")[-STACKS:]
            raise LabError(f"the agent did not end within {deadline:g} s; its log ends with\n{tail}") from None
        self.process = None
        return code

    def kill(self) -> None:
        """End it as a crash does."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def newest(self) -> Report | None:
        """Its newest report."""
        try:
            return self.store().reports.newest(self.name)
        except StoreMissing:
            return None

    def report(self, deadline: float = 60.0) -> Report:
        """A report of a cycle that began after this call."""
        before = self.newest()
        known = (before.epoch, before.sequence + 1) if before is not None else ("", 0)

        def newer() -> Report | None:
            self._alive()
            found = self.newest()
            if found is None or (found.epoch == known[0] and found.sequence <= known[1]):
                return None
            return found

        found = wait_for(newer, deadline, f"a report of {self.host.name}'s agent")
        assert found is not None
        return found

    def domain(self, name: str, deadline: float = 60.0) -> DomainReport:
        """One VM in a report of a cycle that began after this call."""
        for one in self.report(deadline).domains:
            if one.observation.name == name:
                return one
        raise LabError(f"the agent of {self.host.name} knows no VM {name}")

    def store(self) -> Store:
        """The store, opened for reading and for policies as the command line does it."""
        if self._store is None:
            self._store = open_store(self._url, host=self.name, create=False)
        return self._store

    def memhint(self, *words: str, check: bool = True, patience: float = 60.0) -> subprocess.CompletedProcess[str]:
        """Run a `memhint` command against this host; for `patience` seconds again where a report or a guest is late."""
        end = time.monotonic() + patience
        while _late(done := self._run(words)) and time.monotonic() < end:
            time.sleep(0.5)
        if check and done.returncode:
            raise LabError(f"memhint {' '.join(words)} ended with {done.returncode}: {done.stderr or done.stdout}")
        return done

    def _run(self, words: Sequence[str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.argv(*words),
            capture_output=True,
            text=True,
            check=False,
            timeout=300,  # a reclaim may wait for its turn, and then take as long again
            cwd=CHECKOUT,
            env={**os.environ, "COLUMNS": "200"},
        )

    def _make_store(self) -> None:
        """Make the tables here: an agent has a process of its own do it, which takes half a second to load for it."""
        open_store(self._url, host=self.name).close()

    def _alive(self) -> bool:
        if self.process is None or self.process.poll() is not None:
            tail = self.log.read_text(errors="replace")[-2000:] if self.log.exists() else ""
            raise LabError(f"the agent of {self.host.name} has ended:\n{tail}")
        return True

    def _reported(self, known_epoch: str | None) -> bool:
        try:
            report = self.newest()
        except StoreError:
            return False  # it is being made just now
        if report is None or report.epoch == known_epoch:
            return False
        # Its first call to libvirt may come too late: what it says until then is of a host without VMs.
        return not any(gap.what == "bulk statistics" for gap in report.gaps)


def _late(done: subprocess.CompletedProcess[str]) -> bool:
    """Whether a command ended as it does where a report or a guest did not come in time."""
    if done.returncode == Exit.NO_REPORT:
        return True
    return bool(done.returncode) and any(word in done.stderr for word in _LATE_GUEST)
