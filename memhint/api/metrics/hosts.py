"""Hosts as Prometheus has them: a bounded number of series for each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from prometheus_client.core import GaugeMetricFamily, Metric

from memhint.objects.ladder import Rung
from memhint.objects.promise import HostPromises
from memhint.objects.summary import Freshness, HostSummary

_BYTES = {
    "pool": "Memory that VMs and everything else share",
    "reserve": "Memory that the host keeps",
    "assigned": "Memory that the VMs were given, with the overhead of each",
    "footprint": "What the VMs would cost without dedup and swap",
    "resident": "Host memory behind the VMs now",
    "available": "What the kernel could give now",
    "swap_used": "Swap that is used",
    "ksm_saving": "What KSM saves now",
    "want": "What the VMs may come to need",
    "spare": "What is kept for need that the forecast missed",
    "headroom": "What may be promised to new VMs; of a stale host at most what assigned memory alone leaves",
    "nominal_headroom": "What assigned memory alone would leave",
    "reported": "Free guest memory that the host was told about",
    "unreported": "Free guest memory that the host could be told about and was not",
    "returned": "Memory that the host saw come back",
}
Value = tuple[HostSummary, float | None]


class Hosts:
    """The families, from one list of hosts. What is unknown has no series."""

    def __init__(self, hosts: Sequence[HostSummary], promises: Sequence[HostPromises] = ()) -> None:
        """:param promises: of the last day"""
        self._hosts = hosts
        self._promises = promises

    def collect(self) -> Iterator[Metric]:
        """Every family."""
        hosts = self._hosts
        for name, text in _BYTES.items():
            yield _family(f"{name}_bytes", text, ((one, getattr(one, name)) for one in hosts))
        yield _family("domains", "VMs on the host", ((one, one.domains) for one in hosts))
        yield _family("gaps", "Values that are there and could not be observed", ((one, one.gaps) for one in hosts))
        yield _family("slots", "VMs of the configured size that still fit", ((one, one.slots) for one in hosts))
        yield _family("nominal_slots", "The same by assigned memory alone", ((one, one.nominal_slots) for one in hosts))
        yield _family(
            "pressure_ratio",
            "Part of the time in which something waited for memory, over 10 s",
            ((one, None if one.psi is None else one.psi / 100) for one in hosts),
        )
        yield _family(
            "admitting",
            "1 where the newest plan admits VMs, 0 where it does not or is stale",
            ((one, int(one.admitting and one.state is Freshness.FRESH)) for one in hosts),
        )
        yield _family(
            "stale",
            "1 where the newest report is older than three periods",
            ((one, int(one.state is not Freshness.FRESH)) for one in hosts),
        )
        yield _family(
            "silent",
            "1 where the controllers have said that nothing comes from it",
            ((one, int(one.state is Freshness.SILENT)) for one in hosts),
        )
        yield _family(
            "report_timestamp_seconds",
            "When the newest report came, by the store's clock",
            ((one, one.heard) for one in hosts),
        )
        yield _family("report_period_seconds", "Time between two reports", ((one, one.period) for one in hosts))
        yield self._reclaimable()
        yield self._rungs()
        yield self._broken()
        yield from self._fleet()

    def _reclaimable(self) -> Metric:
        found = GaugeMetricFamily(
            "memhint_host_reclaimable_bytes", "What could still come back, at most", labels=["host", "lever"]
        )
        for one in self._hosts:
            for lever, size in one.reclaimable.items():
                if size is not None:
                    found.add_metric([one.name, lever], size)
        return found

    def _rungs(self) -> Metric:
        found = GaugeMetricFamily(
            "memhint_host_rung", "1 for each rung of the pressure ladder that is entered", labels=["host", "rung"]
        )
        for one in self._hosts:
            for rung in one.rungs:
                found.add_metric([one.name, rung], 1)
        return found

    def _broken(self) -> Metric:
        found = GaugeMetricFamily(
            "memhint_host_broken_promises",
            "Hours of the last day in which not all could have been given that was promised as they began",
            labels=["host"],
        )
        broken = {one.host: one.hours - one.held for one in self._promises}
        for host in self._hosts:  # 0 also where no hour was judged yet, so that who sums it misses none
            found.add_metric([host.name], broken.get(host.name, 0))
        return found

    def _fleet(self) -> Iterator[Metric]:
        states = GaugeMetricFamily("memhint_hosts", "Hosts by how far their data may be relied on", labels=["state"])
        for state in Freshness:
            states.add_metric([str(state)], sum(one.state is state for one in self._hosts))
        yield states
        rungs = GaugeMetricFamily(
            "memhint_hosts_on_rung", "Hosts that have entered this rung of the pressure ladder", labels=["rung"]
        )
        for rung in Rung:
            rungs.add_metric([str(rung)], sum(str(rung) in one.rungs for one in self._hosts))
        yield rungs


def _family(name: str, text: str, values: Iterable[Value]) -> Metric:
    found = GaugeMetricFamily(f"memhint_host_{name}", text, labels=["host"])
    for one, value in values:
        if value is not None:
            found.add_metric([one.name], value)
    return found
