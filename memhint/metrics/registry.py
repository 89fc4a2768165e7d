"""Where a process's metrics are gathered."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Gauge, ProcessCollector, disable_created_metrics

from memhint.version import version

disable_created_metrics()  # type: ignore[no-untyped-call]  # a second series for each counter, with when it began, which is not used here


def registry_of(part: str) -> CollectorRegistry:
    """A registry with the process's own CPU, memory and files in it, and memhint's version.

    :param part: which process of memhint it is: agent, api or controller
    """
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    info = Gauge(
        "memhint_build_info", "1, with the version of memhint as a label", ["part", "version"], registry=registry
    )
    info.labels(part, version() or "unknown").set(1)
    return registry
