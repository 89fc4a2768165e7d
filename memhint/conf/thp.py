"""[thp]: making huge pages again of VMs that work again, where their policy allows it."""

from __future__ import annotations

from oslo_config import cfg

GROUP = "thp"

OPTS = (
    cfg.IntOpt(
        "pass_mib",
        default=1024,
        min=2,
        max=100_000,
        help="MiB of one VM of which huge pages are made in a pass, at most. A cycle begins a pass where none is under "
        "way.",
    ),
    cfg.FloatOpt(
        "cpu_percent",
        default=20.0,
        min=1,
        max=100,
        help="Percent of one core that a pass may take.",
    ),
    cfg.FloatOpt(
        "psi_stop",
        default=5.0,
        min=0.1,
        max=100,
        help="Percent of time that something on the host waits for memory; from here on no huge pages are made.",
    ),
    cfg.IntOpt(
        "max_absent",
        default=64,
        min=0,
        max=511,
        help="Absent pages of the 512 of a huge page that may get memory. Blocks with more are left as they are: what "
        "the VM gave back stays with the host.",
    ),
    cfg.FloatOpt(
        "window",
        default=600.0,
        min=10,
        max=86_400,
        help="Seconds after a VM wakes for which huge pages are made of what was split before, where its policy thp is "
        "auto.",
    ),
    cfg.FloatOpt(
        "work_cpu_percent",
        default=20.0,
        min=0.1,
        max=100_000,
        help="Percent of one core from which on a VM counts as working for `auto`, though it does not grow. Where "
        "[active] source is set, touching a quarter of its memory within ten seconds counts, too.",
    ),
)
