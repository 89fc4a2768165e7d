"""A controller's metrics and the server that shows them."""

from __future__ import annotations

from memhint.controller.backtest import Judge
from memhint.controller.intake import Intake
from memhint.controller.metrics import Counts, Metered
from memhint.controller.openstack import OpenStackThread
from memhint.metrics.listener import Listener
from memhint.metrics.registry import registry_of


class ControllerMetricsServer:
    """Of one process. ``handler`` is the one that counts what the intake does."""

    def __init__(self, listen: str, intake: Intake, openstack: OpenStackThread | None, judge: Judge) -> None:
        registry = registry_of("controller")
        self.handler = Metered(intake, registry)
        writes = (lambda: openstack.counts) if openstack is not None else dict
        registry.register(Counts(lambda: intake.counts, writes, lambda: judge.counts))
        self._listener = Listener(listen, registry)
        self._listener.start()

    def close(self) -> None:
        """End."""
        self._listener.close()
