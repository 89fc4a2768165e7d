"""[observe]: what looking closely may cost."""

from __future__ import annotations

from oslo_config import cfg

GROUP = "observe"

OPTS = (
    cfg.FloatOpt(
        "deep_cpu_percent",
        default=0.5,
        min=0,
        max=100,
        help="Percent of one core that reading VMs' page tables (PSS, huge pages, NUMA nodes) may take. 0: not read.",
    ),
    cfg.FloatOpt("deep_interval", default=60.0, min=1, help="Seconds between two such reads of one VM, at least."),
)
