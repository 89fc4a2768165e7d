"""What an agent tells Prometheus of active memory, read when Prometheus asks. What is unknown has no series."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import GaugeMetricFamily, Metric

from memhint.objects.active import AGES, ActiveMemory
from memhint.objects.report import Report


class ActiveMetrics:
    """Of the newest report."""

    def __init__(self) -> None:
        self._newest: list[ActiveMemory] = []

    def take(self, report: Report) -> None:
        """Another cycle."""
        self._newest = [one.observation.active for one in report.domains if one.observation.active is not None]

    def collect(self) -> Iterator[Metric]:
        """Every family, summed over the VMs of which it is known."""
        active = [one.active for one in self._newest if one.active is not None]
        if not active:
            return
        yield GaugeMetricFamily("memhint_agent_watched_domains", "VMs whose active memory is known", len(active))
        yield GaugeMetricFamily("memhint_agent_active_bytes", "Memory of those VMs that is in use", sum(active))
        idle = GaugeMetricFamily(
            "memhint_agent_idle_bytes", "Memory of VMs that was not touched for so many seconds", labels=["age"]
        )
        for age in AGES:
            known = [size for one in self._newest if (size := one.idle_for(age)) is not None]
            if known:
                idle.add_metric([str(age)], sum(known))
        yield idle
        yield GaugeMetricFamily(
            "memhint_agent_active_cpu_ratio",
            "Part of one core that watching takes",
            sum(one.cpu_percent for one in self._newest) / 100.0,
        )
