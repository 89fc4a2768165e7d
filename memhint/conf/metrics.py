"""[metrics]: what memhint tells Prometheus."""

from __future__ import annotations

from oslo_config import cfg, types

from memhint.conf.api import ADDRESS

GROUP = "metrics"

OPTS = (
    cfg.Opt(
        "listen",
        type=types.String(regex=f"^({ADDRESS})?$"),
        default="",
        help="Address and port at which agent and controller show their own metrics, to whoever asks: 127.0.0.1:8791. "
        "Port 0 is any free one. Empty: nowhere. The API shows its own at /metrics.",
    ),
    cfg.IntOpt(
        "domains",
        default=100,
        min=0,
        max=10000,
        help="VMs, at most, of which the API's /metrics has series: those with the most unreported memory and those "
        "with the largest footprint.",
    ),
    cfg.FloatOpt(
        "fleet_every",
        default=10.0,
        min=0,
        max=300,
        help="Seconds, at least, between two looks into the store for what the API's /metrics says of hosts and VMs. "
        "Scrapes in between are told the same again, and memhint_api_fleet_age_seconds how old it is. 0: each scrape "
        "looks.",
    ),
)
