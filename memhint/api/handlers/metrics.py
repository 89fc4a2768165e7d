"""Metrics as Prometheus has them. They are shown without the store too, and then say that it is away."""

from __future__ import annotations

import logging

from prometheus_client import CollectorRegistry, Gauge
from prometheus_client.exposition import generate_latest

from memhint.api.handlers.history import DAY
from memhint.api.metrics.domains import Domains, largest
from memhint.api.metrics.hosts import Hosts
from memhint.api.route import ApiResponse, Call
from memhint.store.errors import StoreError

LOG = logging.getLogger(__name__)
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
    try:
        hosts = parts.store.hosts_view.all()
        promises = parts.store.promises.since(parts.clock() - DAY)
        domains = largest(parts.store.domains, parts.metered_domains)
    except StoreError as error:
        LOG.error("no metrics of hosts and VMs: %s", error)
        parts.requests.store_failed()
    else:
        up.set(1)
        registry.register(Hosts(hosts, promises))
        registry.register(Domains(domains, max(0, sum(one.domains for one in hosts) - len(domains))))
    body = generate_latest(registry) + generate_latest(parts.requests.registry)
    return ApiResponse(body, headers={"Cache-Control": "no-store"}, media=MEDIA)
