"""The bus as the agent sees it: something that takes reports."""

from __future__ import annotations

from typing import Protocol

from memhint.objects.report import Report


class Publisher(Protocol):
    """Takes each cycle's report."""

    def publish(self, report: Report) -> None:
        """Hand a report on. Never raises: the agent works on without a listener."""
