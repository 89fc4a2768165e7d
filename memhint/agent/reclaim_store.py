"""Where requests to reclaim are kept."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from memhint.objects.reclaim import Reclaim


class ReclaimStore(Protocol):
    """Where requests are kept. Every method raises StoreError when it is away."""

    def open(self) -> tuple[Reclaim, ...]:
        """Those of this host that have not ended, oldest first."""

    def interrupted(self) -> Mapping[str, str]:
        """Why requests of this host that have not ended shall end, by id."""

    def save(self, reclaim: Reclaim) -> bool:
        """Keep how far it has come; False where it had ended already, which nothing changes any more."""


class NoRequests:
    """A store without requests: of a dry run."""

    def open(self) -> tuple[Reclaim, ...]:
        """None."""
        return ()

    def interrupted(self) -> Mapping[str, str]:
        """None."""
        return {}

    def save(self, reclaim: Reclaim) -> bool:
        """Drop it."""
        return True
