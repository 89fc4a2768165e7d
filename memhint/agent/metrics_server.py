"""An agent's metrics and the server that shows them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from memhint.agent.metrics import AgentMetrics, BusMetrics
from memhint.bus.inprocess import InProcessBus
from memhint.bus.rabbit_publisher import Sent
from memhint.metrics.listener import Listener
from memhint.metrics.registry import registry_of


class AgentMetricsServer:
    """Of one process; a reload gives it another bus to watch."""

    def __init__(self, listen: str, sent: Callable[[], Sent] | None) -> None:
        """:param sent: what became of the reports for the broker; None where there is none."""
        registry = registry_of("agent")
        self.metrics = AgentMetrics(registry)
        self._bus: InProcessBus | None = None
        registry.register(BusMetrics(self._failures, sent))
        self._listener = Listener(listen, registry)
        self._listener.start()

    def watch(self, bus: InProcessBus) -> None:
        """Count the failures of this bus from now on."""
        self._bus = bus

    def close(self) -> None:
        """End."""
        self._listener.close()

    def _failures(self) -> Mapping[str, int]:
        return self._bus.failures if self._bus is not None else {}
