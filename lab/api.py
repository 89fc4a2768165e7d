"""The API and the dashboard of a lab host, over the store of its agent."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from lab.agent import AgentProcess, agent_config
from lab.errors import LabError
from lab.process import Process
from lab.servers.ports import free_ports
from lab.started import Started
from lab.waiting import wait_for

_SAYS = "the API is at"


class ApiProcess(Started):
    """`memhint api` as a process of its own, on loopback and without sign-in. A context manager."""

    def __init__(self, agent: AgentProcess) -> None:
        self.agent = agent
        self.config = agent.directory / "api.conf"
        self.log = agent.directory / "api.log"
        (self.port,) = free_ports(1)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Where it is."""
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Begin, and wait until it serves."""
        agent = self.agent
        settings = {"api": {"listen": f"127.0.0.1:{self.port}", "auth": "none"}}
        self.config.write_text(agent_config(agent.host, agent.directory, settings, agent.name))
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "memhint.cli.main", "api", "--config-file", str(self.config)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=Path(__file__).resolve().parent.parent,
                start_new_session=True,  # a ctrl-c on the terminal is for the lab to handle
            )
        started = Process.of(self._process.pid)
        if started is not None:
            agent.host.record.processes["api"] = started  # for whoever takes the lab down after a crash of this process
            agent.host.save()
        wait_for(self._serves, 60, "the API to serve")

    def close(self) -> None:
        """End it."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None

    def _serves(self) -> bool:
        if self._process is not None and self._process.poll() is not None:
            raise LabError(f"the API ended with {self._process.returncode}: {self.log.read_text()[-2000:]}")
        return _SAYS in self.log.read_text()
