"""What the handlers work with: the store, the way to the hosts, and the process's own settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from memhint.objects.policy import Origin
from memhint.store.database import Store
from memhint.store.fleet_history import FleetHistory
from memhint.store.log import Log

if TYPE_CHECKING:
    from memhint.api.enforcer import Enforcer
    from memhint.api.metrics.figures import FleetFigures
    from memhint.api.metrics.requests import Requests
    from memhint.api.stream import Hub
    from memhint.controller.dispatch import Dispatch


@dataclass(frozen=True, slots=True)
class Parts:
    """One application's. ``overhead`` is what QEMU takes beside each VM's memory, in bytes; ``clock`` unix seconds.

    ``inputs`` is what the configuration says for every VM, where there is one host only and it has the same; None in a
    fleet. ``bus`` tells how the broker is: ok, off or away.
    """

    store: Store
    log: Log
    fleet_history: FleetHistory
    dispatch: Dispatch
    enforcer: Enforcer
    hub: Hub
    requests: Requests
    figures: FleetFigures
    overhead: int
    inputs: Mapping[Origin, Mapping[str, str]] | None
    bus: Callable[[], str]
    clock: Callable[[], float]
    description: Mapping[str, Any]  # OpenAPI
