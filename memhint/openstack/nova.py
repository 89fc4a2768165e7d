"""Nova: asked to move one VM away from a host that is short of memory. memhint never evacuates."""

from __future__ import annotations

from typing import Any, Protocol

MICROVERSION = "2.68"  # a live migration that no force can send past the scheduler


class Asked(Protocol):
    """How the service is asked."""

    def get(self, path: str) -> Any:
        """The JSON at a path."""

    def post(self, path: str, body: Any) -> Any:
        """Have something done."""


class Nova:
    """The part of the service that memhint needs."""

    def __init__(self, service: Asked) -> None:
        self._service = service

    def busy(self, server: str) -> bool:
        """Whether Nova does something with the server already, or cannot move it as it is.

        :raises NotThere: when Nova has no such server
        :raises OpenStackError: when Nova cannot be asked
        """
        found = self._service.get(f"/servers/{server}")["server"]
        return found.get("OS-EXT-STS:task_state") is not None or found.get("status") != "ACTIVE"

    def live_migrate(self, server: str) -> None:
        """Have the scheduler choose another host and move it there.

        :raises OpenStackError: when Nova cannot be asked or refuses
        """
        self._service.post(f"/servers/{server}/action", {"os-migrateLive": {"host": None, "block_migration": "auto"}})
