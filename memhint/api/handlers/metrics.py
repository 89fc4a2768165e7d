"""Metrics of the fleet as Prometheus has them: a handful of series for each host, none for each VM."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.exposition import generate_latest

from memhint.api.route import Answer, Call
from memhint.objects.summary import Freshness, HostSummary

MEDIA = "text/plain; version=0.0.4; charset=utf-8"

_BYTES = {
    "pool": "Memory that VMs and everything else share",
    "reserve": "Memory that the host keeps",
    "assigned": "Memory that the VMs were given, with QEMU's own",
    "footprint": "What the VMs would cost without dedup and swap",
    "resident": "Host memory behind the VMs now",
    "available": "What the kernel could give now",
    "swap_used": "Swap that is used",
    "ksm_saving": "What KSM saves now",
    "want": "What the VMs may come to need",
    "spare": "What is kept for need that the forecast missed",
    "headroom": "What may be promised to new VMs",
    "nominal_headroom": "What assigned memory alone would leave",
    "reported": "Free guest memory that the host was told about",
    "unreported": "Free guest memory that the host could be told about and was not",
    "returned": "Memory that the host saw come back",
}


class _Hosts:
    """The families, from one list of hosts."""

    def __init__(self, hosts: Sequence[HostSummary]) -> None:
        self._hosts = hosts

    def collect(self) -> Iterator[Metric]:
        """Every family."""
        for name, text in _BYTES.items():
            values = ((one, getattr(one, name)) for one in self._hosts)
            yield _family(f"memhint_host_{name}_bytes", f"{text}. What is unknown has no series", values)
        yield _family("memhint_host_domains", "VMs on the host", ((one, one.domains) for one in self._hosts))
        yield _family(
            "memhint_host_gaps", "Values that could not be observed", ((one, one.gaps) for one in self._hosts)
        )
        yield _family(
            "memhint_host_slots", "VMs of the configured size that still fit", ((one, one.slots) for one in self._hosts)
        )
        yield _family(
            "memhint_host_pressure_percent",
            "Time lost waiting for memory, over 10 s",
            ((one, one.psi) for one in self._hosts),
        )
        yield _family(
            "memhint_host_admitting", "1 where the host admits VMs", ((one, int(one.admitting)) for one in self._hosts)
        )
        yield _family(
            "memhint_host_report_timestamp_seconds",
            "When the newest report was made",
            ((one, one.heard) for one in self._hosts),
        )
        rungs = GaugeMetricFamily(
            "memhint_host_rungs", "Rungs of the pressure ladder that are entered", labels=["host"]
        )
        for one in self._hosts:
            rungs.add_metric([one.name], len(one.rungs))
        yield rungs
        states = GaugeMetricFamily("memhint_hosts", "Hosts by how far their data may be relied on", labels=["state"])
        for state in Freshness:
            states.add_metric([str(state)], sum(one.state is state for one in self._hosts))
        yield states


def show(call: Call) -> Answer:
    """All of them."""
    registry = CollectorRegistry()
    registry.register(_Hosts(call.parts.store.hosts_view.all()))
    return Answer(generate_latest(registry), headers={"Cache-Control": "no-store"}, media=MEDIA)


def _family(name: str, text: str, values: Iterable[tuple[HostSummary, float | None]]) -> Metric:
    found = GaugeMetricFamily(name, text, labels=["host"])
    for one, value in values:
        if value is not None:
            found.add_metric([one.name], value)
    return found
