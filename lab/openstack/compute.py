"""One compute of a stack: a lab host with its own libvirt, or one that only pretends; and its nova-compute."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.agent import AgentProcess
from lab.errors import StateError
from lab.host import Host


@dataclass(frozen=True)
class Compute:
    """A compute."""

    name: str
    """Of the host in Nova, of its hypervisor and of its resource provider."""
    address: str
    directory: Path
    """Nova's state on this host."""
    host: Host | None
    """The lab host, with `uri`, `run_dir`, `cgroup` and guests' processes; None for one that pretends."""

    @property
    def uuid(self) -> str:
        """UUID of the compute node and of its resource provider, once nova-compute has run."""
        return self.identity.read_text().strip()

    @property
    def identity(self) -> Path:
        """The file in which Nova keeps the UUID."""
        return self.directory / "compute_id"

    @property
    def service(self) -> str:
        """The name of its nova-compute among the stack's services."""
        return f"nova-compute-{self.name}"

    def agent(self, settings: Mapping[str, Mapping[str, Any]] | None = None) -> AgentProcess:
        """A memhint agent for this compute, not started yet, which reports under the name that Nova knows.

        :param settings: by group and option, on top of what a lab's agent gets
        :raises StateError: the compute only pretends
        """
        if self.host is None:
            raise StateError(f"{self.name} only pretends: there is nothing for an agent to observe")
        return AgentProcess(self.host, settings, self.name)
