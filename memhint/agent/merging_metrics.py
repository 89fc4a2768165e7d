"""What an agent tells Prometheus of merged memory, read when Prometheus asks. What is unknown has no series."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from memhint.objects.host import Ksm
from memhint.objects.merging import Merging
from memhint.objects.report import Report


class MergingMetrics:
    """Of the newest report: sums, so that there are as many series on a host with a thousand VMs as with one."""

    def __init__(self) -> None:
        self._newest: list[Merging] = []
        self._ksm: Ksm | None = None

    def take(self, report: Report) -> None:
        """Another cycle."""
        self._newest = [one.merging for one in report.domains if one.merging is not None]
        self._ksm = report.observation.ksm

    def collect(self) -> Iterator[Metric]:
        """Every family."""
        if self._ksm is None:
            return
        having = [one for one in self._newest if one.merged]
        yield GaugeMetricFamily("memhint_agent_merging_domains", "VMs with merged pages", len(having))
        yield GaugeMetricFamily(
            "memhint_agent_merged_bytes", "Memory of VMs that is merged", sum(one.merged for one in having)
        )
        yield GaugeMetricFamily(
            "memhint_agent_merged_empty_bytes",
            "Of it, empty pages that KSM replaced by the zero page",
            sum(one.zero for one in having),
        )
        yield GaugeMetricFamily(
            "memhint_agent_merging_partitions",
            "Partitions of KSM with merged pages; 0 where it has none",
            len({one.partition for one in having} - {None}),
        )
        rests = sum(1 for one in self._newest if one.rests is not None)
        yield GaugeMetricFamily("memhint_agent_resting_domains", "VMs left alone as their merged pages break", rests)
        if self._ksm.cow_breaks is not None:
            yield CounterMetricFamily(
                "memhint_agent_merge_breaks", "Merged pages that were broken up", self._ksm.cow_breaks
            )
