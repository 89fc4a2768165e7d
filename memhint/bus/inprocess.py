"""The bus of a single host: subscribers in the agent's own process, called one after the other."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from memhint.objects.report import Report

Subscriber = Callable[[Report], None]

_LOG = logging.getLogger(__name__)


class InProcessBus:
    """A Publisher that calls its subscribers in the order in which they subscribed."""

    def __init__(self) -> None:
        self._subscribers: dict[str, Subscriber] = {}
        self._failures: dict[str, int] = {}

    def subscribe(self, name: str, subscriber: Subscriber) -> None:
        """Call ``subscriber`` with every further report; ``name`` is what its failures are logged under.

        :raises ValueError: when the name is taken
        """
        if name in self._subscribers:
            raise ValueError(f"a subscriber {name!r} is there already")
        self._subscribers[name] = subscriber
        self._failures[name] = 0

    def publish(self, report: Report) -> None:
        """Hand a report to every subscriber; one that fails is logged and counted, and keeps none of the others."""
        for name, subscriber in self._subscribers.items():
            try:
                subscriber(report)
            except Exception as error:  # noqa: BLE001  whatever it is, the next subscriber needs the report
                self._failures[name] += 1
                _LOG.error("%s did not take report %d: %s", name, report.sequence, error)

    @property
    def failures(self) -> Mapping[str, int]:
        """Failed reports of each subscriber since the start."""
        return dict(self._failures)
