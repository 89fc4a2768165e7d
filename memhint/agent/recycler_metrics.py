"""What an agent tells Prometheus of page recyclers: one sum over all VMs, which goes on when one of them ends."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from memhint.objects.report import Report

OUTCOMES = ("recycled", "lost", "failed")


class RecyclerMetrics:
    """Of all reports since the agent was started. QEMUs count for themselves, from when their VMs were started."""

    def __init__(self) -> None:
        self._bytes = dict.fromkeys(OUTCOMES, 0)
        self._last: dict[tuple[str, str], dict[str, int]] = {}  # by VM and QEMU, of the newest report
        self._working = 0

    def take(self, report: Report) -> None:
        """Another cycle."""
        seen: dict[tuple[str, str], dict[str, int]] = {}
        self._working = 0
        for one in report.domains:
            process, counters = one.observation.process, one.observation.balloon_reporting
            if process is None or counters is None or counters.recycler is None:
                continue
            key = (one.observation.uuid, process.instance)
            seen[key] = {name: getattr(counters.recycler, name) for name in OUTCOMES}
            self._working += bool(counters.recycler.workers and counters.recycler.inhibited is None)
            # What was there before the agent, or before a VM came here, is none of its own.
            for name, before in self._last.get(key, seen[key]).items():
                self._bytes[name] += max(0, seen[key][name] - before)
        self._last = seen

    def collect(self) -> Iterator[Metric]:
        """Every family."""
        yield GaugeMetricFamily(
            "memhint_agent_recycling_domains", "VMs whose QEMU gives single free pages back", self._working
        )
        family = CounterMetricFamily(
            "memhint_agent_recycler_bytes",
            "Free memory that QEMUs gave back in single pages, that a guest took first, and that the host refused",
            labels=["outcome"],
        )
        for name in OUTCOMES:
            family.add_metric([name], self._bytes[name])
        yield family
