"""What an agent tells Prometheus of the host's huge pages, read when Prometheus asks. What is unknown has no series."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from memhint.objects.host import HugeActivity
from memhint.objects.huge import HugePages, huge_pages
from memhint.objects.report import Report


class HugeMetrics:
    """Of the newest report."""

    def __init__(self) -> None:
        self._newest: HugePages | None = None

    def take(self, report: Report) -> None:
        """Another cycle."""
        self._newest = huge_pages(report)

    def collect(self) -> Iterator[Metric]:
        """Every family."""
        newest = self._newest
        if newest is None:
            return
        for name, text, value in (
            ("huge_ratio", "Part of the VMs' resident memory that huge pages back", newest.coverage),
            ("remote_ratio", "Part of the VMs' memory that their CPUs fetch from another node", newest.remote),
            ("fast_ratio", "Part of the VMs' memory that lies on the fastest nodes", newest.fast),
            (
                "free_huge_bytes",
                "Memory that is free in blocks of a huge page and larger",
                sum(newest.free.values()) if newest.free else None,
            ),
        ):
            if value is not None:
                yield GaugeMetricFamily(f"memhint_agent_{name}", text, value)
        if newest.activity is None:
            return
        events = CounterMetricFamily(
            "memhint_agent_huge_page_events",
            "What became of huge pages on the host, and of compaction for them, since it was started",
            labels=["event"],
        )
        for event in fields(HugeActivity):
            count = getattr(newest.activity, event.name)
            if count is not None:
                events.add_metric([event.name], count)
        yield events
