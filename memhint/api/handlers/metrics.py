"""Metrics as Prometheus has them. They are shown without the store too, and then say that it is away."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Gauge
from prometheus_client.exposition import generate_latest

from memhint.api.route import ApiResponse, Call

MEDIA = "text/plain; version=0.0.4; charset=utf-8"


def show(call: Call) -> ApiResponse:
    """All of them."""
    parts = call.parts
    registry = CollectorRegistry()
    up = Gauge("memhint_api_store_up", "1 where the store answered", registry=registry)
    streams = Gauge("memhint_api_streams", "Clients that follow the stream of changes", registry=registry)
    streams.set(len(parts.hub))
    most = Gauge("memhint_api_streams_limit", "How many may", registry=registry)
    most.set(parts.hub.most)
    figures = parts.figures.now()
    if figures.error is None:
        up.set(1)
        text = "How old is what is said of hosts and VMs"
        age = Gauge("memhint_api_fleet_age_seconds", text, registry=registry)
        age.set(max(0.0, parts.clock() - figures.at))
    for families in figures.families:
        registry.register(families)
    body = generate_latest(registry) + generate_latest(parts.requests.registry)
    return ApiResponse(body, headers={"Cache-Control": "no-store"}, media=MEDIA)
