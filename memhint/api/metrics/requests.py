"""What a process of the API counts of itself: requests by their route, and how the store did."""

from __future__ import annotations

from prometheus_client import Counter, Histogram

from memhint.metrics.registry import registry_of

UNMATCHED = "unmatched"  # the route of a request that is for none, or that was not looked up
OTHER = "other"
METHODS = ("DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT")
BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)  # seconds


class Requests:
    """One per application. Labels are of the route table, never what a caller wrote."""

    def __init__(self) -> None:
        self.registry = registry_of("api")
        self._requests = Counter(
            "memhint_api_requests",
            "Requests by method, route and status",
            ["method", "route", "status"],
            registry=self.registry,
        )
        self._seconds = Histogram(
            "memhint_api_request_duration_seconds",
            "Time from a request to its answer's first byte, by route",
            ["method", "route"],
            buckets=BUCKETS,
            registry=self.registry,
        )
        self._store = Counter("memhint_api_store_errors", "Requests that the store let fail", registry=self.registry)

    def answered(self, method: str, route: str | None, status: int, seconds: float) -> None:
        """Count a request; ``route`` is its path in the route table, None where it has none."""
        method = method if method in METHODS else OTHER
        shown = route or UNMATCHED
        self._requests.labels(method, shown, str(status)).inc()
        self._seconds.labels(method, shown).observe(seconds)

    def store_failed(self) -> None:
        """Count an answer that the store did not give."""
        self._store.inc()
