"""Nova: asked to move one VM away from a host that is short of memory. memhint never evacuates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from memhint.openstack.errors import OpenStackError

MICROVERSION = "2.68"  # a live migration that no force can send past the scheduler


class Asked(Protocol):
    """How the service is asked."""

    def get(self, path: str) -> Any:
        """The JSON at a path."""

    def post(self, path: str, body: Any) -> Any:
        """Have something done."""


@dataclass(frozen=True, slots=True)
class Placed:
    """Where Nova runs a server. ``busy``: it does something with it already, or cannot move it as it is."""

    hypervisor: str | None
    busy: bool


class Nova:
    """The part of the service that memhint needs."""

    def __init__(self, service: Asked) -> None:
        self._service = service

    def placed(self, server: str) -> Placed:
        """Where a server runs.

        :param server: its UUID
        :raises NotThere: when Nova has no such server
        :raises OpenStackError: when Nova cannot be asked, or its answer is none
        """
        found = self._part(f"/servers/{server}", "server")
        busy = found.get("OS-EXT-STS:task_state") is not None or found.get("status") != "ACTIVE"
        return Placed(found.get("OS-EXT-SRV-ATTR:hypervisor_hostname"), busy)

    def hypervisor(self, provider: str) -> str | None:
        """The name of the hypervisor that is a resource provider in Placement.

        :raises NotThere: when Nova has no such hypervisor
        :raises OpenStackError: when Nova cannot be asked, or its answer is none
        """
        name = self._part(f"/os-hypervisors/{provider}", "hypervisor").get("hypervisor_hostname")
        return str(name) if name is not None else None

    def _part(self, path: str, name: str) -> dict[str, Any]:
        answer = self._service.get(path)
        part = answer.get(name) if isinstance(answer, dict) else None
        if not isinstance(part, dict):
            raise OpenStackError(f"Nova's answer to {path} has no {name}")
        return part

    def live_migrate(self, server: str) -> None:
        """Have the scheduler choose another host and move it there.

        :raises OpenStackError: when Nova cannot be asked or refuses
        """
        self._service.post(f"/servers/{server}/action", {"os-migrateLive": {"host": None, "block_migration": "auto"}})
