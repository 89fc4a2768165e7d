"""The way from the API to the hosts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from memhint.objects.reclaim import Reclaim, ReclaimRequest
from memhint.objects.verdict import Answer, Reason, Verdict
from memhint.store.database import Store
from memhint.store.reclaims import Reclaims


class Dispatch(Protocol):
    """What the API asks of hosts."""

    def reclaim(self, request: ReclaimRequest, host: str) -> Reclaim:
        """Queue a request for a VM of this host."""

    def interrupt(self, request: str) -> None:
        """End a request."""

    def set_policy(self, uuid: str, values: Mapping[str, str | None]) -> None:
        """Merge an operator's wishes; None takes one back."""

    def bus(self) -> str:
        """How the broker is: ok, off or away."""


class Embedded:
    """One host: the store is the one that its agent reads."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def reclaim(self, request: ReclaimRequest, host: str) -> Reclaim:
        """Queue it where the agent looks."""
        queued = Reclaim(request)
        Reclaims(self._store.database, host, 86400.0).add(queued)
        return queued

    def interrupt(self, request: str) -> None:
        """Mark it as ended by whoever asked."""
        found = self._store.reclaims.get(request)
        if found is not None:
            from dataclasses import replace

            from memhint.objects.reclaim import ReclaimState, Stop

            verdict = Verdict(Answer.REFUSED, Reason.INTERRUPTED, "taken back")
            self._store.reclaims.save(
                replace(found, state=ReclaimState.REFUSED, stop=Stop.INTERRUPTED, verdict=verdict)
            )

    def set_policy(self, uuid: str, values: Mapping[str, str | None]) -> None:
        """Write them where the agent looks."""
        kept = {name: value for name, value in values.items() if value is not None}
        gone = [name for name, value in values.items() if value is None]
        self._store.policies.set_operator(uuid, kept, gone)

    def bus(self) -> str:
        """There is none."""
        return "off"
