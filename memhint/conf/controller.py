"""[controller]: the process that keeps what all agents report."""

from __future__ import annotations

from oslo_config import cfg

GROUP = "controller"

OPTS = (
    cfg.FloatOpt("sweep", default=5.0, min=0.1, help="Seconds between two looks for hosts that have gone silent."),
    cfg.IntOpt(
        "batch", default=100, min=1, max=5000, help="Messages, at most, that go into the store in one transaction."
    ),
)
