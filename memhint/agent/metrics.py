"""What an agent tells Prometheus of itself: its cycles, its verdicts, and what waits for the broker."""

from __future__ import annotations

from collections import Counter as Count
from collections.abc import Callable, Iterable, Iterator, Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from memhint.agent.active_metrics import ActiveMetrics
from memhint.agent.huge_metrics import HugeMetrics
from memhint.agent.merging_metrics import MergingMetrics
from memhint.agent.recycler_metrics import RecyclerMetrics
from memhint.bus.rabbit_publisher import Sent
from memhint.objects.gap import GapReason
from memhint.objects.lever import LeverName, LeverState
from memhint.objects.report import Report
from memhint.objects.verdict import Answer

BUCKETS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)  # seconds; the shipped period is 10


class AgentMetrics:
    """A subscriber of the bus, and an Audit."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._cycle = Histogram(
            "memhint_agent_cycle_duration_seconds",
            "Time from the beginning of a cycle to its report",
            buckets=BUCKETS,
            registry=registry,
        )
        self._cpu = Counter(
            "memhint_agent_cycle_cpu_seconds", "CPU time that the process took within cycles", registry=registry
        )
        self._failures = Counter(
            "memhint_agent_cycle_failures", "Cycles that ended without a report", registry=registry
        )
        self._period = Gauge(
            "memhint_agent_period_seconds", "Time between two cycles, as configured", registry=registry
        )
        self._domains = Gauge("memhint_agent_domains", "VMs in the newest report", registry=registry)
        self._gaps = Gauge(
            "memhint_agent_gaps", "Values that the newest cycle could not observe", ["reason"], registry=registry
        )
        self._unreadable = Gauge(
            "memhint_agent_policies_unreadable",
            "VMs of which a stored wish cannot be read: they count in full, and nothing is done to them",
            registry=registry,
        )
        self._verdicts = Counter(
            "memhint_agent_lever_verdicts",
            "Verdicts of levers that were another than before",
            ["lever", "answer"],
            registry=registry,
        )
        self._more = (HugeMetrics(), ActiveMetrics(), RecyclerMetrics(), MergingMetrics())
        for one in self._more:
            registry.register(one)
        for lever in LeverName:  # each is there from the start, so that the first one is seen as an increase
            for answer in Answer:
                self._verdicts.labels(lever, answer)
        for reason in GapReason:
            self._gaps.labels(reason)

    def take(self, report: Report) -> None:
        """Count a cycle."""
        self._cycle.observe(report.cost.wall)
        self._cpu.inc(max(0.0, report.cost.cpu))
        self._period.set(report.period)
        self._domains.set(len(report.domains))
        gaps = Count(
            gap.reason
            for gaps in (report.gaps, report.observation.gaps, *(one.observation.gaps for one in report.domains))
            for gap in gaps
        )
        self._unreadable.set(sum(one.careful for one in report.domains))
        for reason in GapReason:
            self._gaps.labels(reason).set(gaps[reason])
        for more in self._more:
            more.take(report)

    def record(self, host: str, at: float, states: Iterable[LeverState]) -> None:
        """Count verdicts that are news."""
        for one in states:
            self._verdicts.labels(one.lever, one.verdict.answer).inc()

    def failed(self) -> None:
        """Count a cycle that ended without a report."""
        self._failures.inc()


class BusMetrics:
    """What became of the reports, read when Prometheus asks."""

    def __init__(self, failures: Callable[[], Mapping[str, int]], sent: Callable[[], Sent] | None) -> None:
        """:param failures: reports that each subscriber did not take
        :param sent: what the broker took; None where there is none
        """
        self._failures = failures
        self._sent = sent

    def collect(self) -> Iterator[Metric]:
        """Every family."""
        failures = CounterMetricFamily(
            "memhint_agent_subscriber_failures", "Reports that store or broker did not take", labels=["subscriber"]
        )
        for name, number in self._failures().items():
            failures.add_metric([name], number)
        yield failures
        if self._sent is None:
            return
        sent = self._sent()
        yield GaugeMetricFamily("memhint_agent_broker_connected", "1 while there is a broker", int(sent.connected))
        reports = CounterMetricFamily(
            "memhint_agent_reports",
            "Reports for the broker: sent, replaced by a newer one before, or too old by then",
            labels=["outcome"],
        )
        for outcome, number in (("sent", sent.states), ("replaced", sent.replaced), ("expired", sent.expired)):
            reports.add_metric([outcome], number)
        yield reports
        yield CounterMetricFamily(
            "memhint_agent_records", "Messages of history and events that were sent", sent.records
        )
        yield GaugeMetricFamily("memhint_agent_spool_depth", "Points and events that wait for the broker", sent.waiting)
        yield CounterMetricFamily(
            "memhint_agent_spool_lost", "Points and events for which there was no room", sent.lost
        )
