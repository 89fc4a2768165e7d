"""Nova: asked to move one VM away from a host that is short of memory. memhint never evacuates."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import urlencode

from memhint.objects.instance import Instance
from memhint.openstack.errors import OpenStackError

MICROVERSION = "2.69"  # no force sends a migration past the scheduler; a server in a cell that is down is still found

_PART = 1000  # servers in one answer: as many as Nova gives at most, unless told otherwise
_PARTS_MOST = 2000


class NovaApi(Protocol):
    """Nova over HTTP: JSON in and out."""

    def get(self, path: str) -> Any:
        """The JSON at a path."""

    def post(self, path: str, body: Any) -> Any:
        """Have something done."""


@dataclass(frozen=True, slots=True)
class Placed:
    """Where Nova runs a server. ``busy``: it does something with it already, or cannot move it as it is.

    ``moving``: it moves it already.
    """

    hypervisor: str | None
    busy: bool
    moving: bool = False


class Nova:
    """The part of the service that memhint needs."""

    def __init__(self, service: NovaApi) -> None:
        self._service = service

    def placed(self, server: str) -> Placed:
        """Where a server runs.

        :param server: its UUID
        :raises NotThere: when Nova has no such server
        :raises OpenStackError: when Nova cannot be asked, or its answer is none
        """
        found = self._part(f"/servers/{server}", "server")
        task, status = found.get("OS-EXT-STS:task_state"), found.get("status")
        busy, moving = task is not None or status != "ACTIVE", task == "migrating" or status == "MIGRATING"
        return Placed(found.get("OS-EXT-SRV-ATTR:hypervisor_hostname"), busy, moving)

    def hypervisor(self, provider: str) -> str | None:
        """The name of the hypervisor that is a resource provider in Placement.

        :raises NotThere: when Nova has no such hypervisor
        :raises OpenStackError: when Nova cannot be asked, or its answer is none
        """
        name = self._part(f"/os-hypervisors/{provider}", "hypervisor").get("hypervisor_hostname")
        return str(name) if name is not None else None

    def instances(self, since: str | None) -> Iterator[tuple[Instance, ...]]:
        """The servers of all projects, in parts.

        :param since: only those that changed since this time (ISO 8601), deleted ones among them
        :raises OpenStackError: when Nova cannot be asked, or its answer is none
        """
        marker = ""
        for _ in range(_PARTS_MOST):
            query = {"all_tenants": "1", "limit": str(_PART)}
            query |= {"marker": marker} if marker else {}
            query |= {"changes-since": since} if since else {}
            answer = self._service.get(f"/servers/detail?{urlencode(query)}")
            servers = answer.get("servers") if isinstance(answer, dict) else None
            if not isinstance(servers, list):
                raise OpenStackError("Nova's list of servers is none")
            if not servers:
                return
            part = tuple(map(_instance, servers))
            yield part
            if str(servers[-1]["id"]) == marker:
                raise OpenStackError("Nova's list of servers does not go on")
            marker = str(servers[-1]["id"])
        raise OpenStackError(f"Nova's list of servers does not end: {_PARTS_MOST * _PART} were read")

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


def _instance(server: Any) -> Instance:
    try:
        uuid, project = str(server["id"]), str(server["tenant_id"])
        hypervisor, status = server.get("OS-EXT-SRV-ATTR:hypervisor_hostname"), server.get("status")
    except (KeyError, TypeError, AttributeError):
        raise OpenStackError("Nova's list of servers has one without id or project") from None
    return Instance(uuid.lower(), project, None if hypervisor is None else str(hypervisor), status == "DELETED")
