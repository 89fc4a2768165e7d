"""The largest VMs as Prometheus has them: so many as [metrics] domains says, however large the fleet is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, zip_longest

from prometheus_client.core import GaugeMetricFamily, Metric

from memhint.objects.summary import DomainSummary
from memhint.store.domains import Domains as Listed

BY = ("unreported", "footprint")
_BYTES = {
    "assigned": "Memory that the VM was given",
    "footprint": "What it would cost without dedup and swap",
    "resident": "Host memory behind it now",
    "reported": "Free guest memory that the host was told about",
    "unreported": "Free guest memory that the host could be told about and was not",
    "returned": "Memory that the host saw come back",
}


class Domains:
    """The families, of VMs that were chosen. What is unknown has no series."""

    def __init__(self, domains: Sequence[DomainSummary], left_out: int) -> None:
        """:param left_out: VMs of the fleet that were not chosen."""
        self._domains = domains
        self._left_out = left_out

    def collect(self) -> Iterator[Metric]:
        """Every family."""
        for name, text in _BYTES.items():
            found = GaugeMetricFamily(f"memhint_domain_{name}_bytes", text, labels=["uuid", "host", "name", "project"])
            for one in self._domains:
                value = getattr(one, name)
                if value is not None:
                    found.add_metric([one.uuid, one.host, one.name, one.project or ""], value)
            yield found
        yield GaugeMetricFamily("memhint_domains_shown", "VMs that have series", len(self._domains))
        yield GaugeMetricFamily("memhint_domains_left_out", "VMs that have none", self._left_out)


def largest(domains: Listed, most: int) -> tuple[DomainSummary, ...]:
    """So many VMs, at most: in turn the one with the most unreported memory and the one with the largest footprint.

    :raises StoreError: when the database fails
    """
    if not most:
        return ()
    lists = [domains.page(sort=key, descending=True, limit=most).items for key in BY]
    in_turn = (one for one in chain.from_iterable(zip_longest(*lists)) if one is not None)
    return tuple({(one.uuid, one.host): one for one in in_turn}.values())[:most]
