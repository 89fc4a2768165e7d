"""[recycler]: giving back single free pages of VMs whose QEMU and kernel have the page recycler."""

from __future__ import annotations

from oslo_config import cfg

GROUP = "recycler"

OPTS = (
    cfg.IntOpt(
        "workers",
        default=1,
        min=1,
        max=16,
        help="Threads of each QEMU that look for pages that its guest marked free, while it recycles.",
    ),
    cfg.FloatOpt(
        "period",
        default=10.0,
        min=0.01,
        max=3600,
        help="Seconds from one look through a guest's marks to the next. A shorter one gets memory back sooner, and "
        "gives back more pages that the guest was about to use again.",
    ),
    cfg.IntOpt(
        "max_mib",
        default=256,
        min=1,
        max=100_000,
        help="MiB that are given back of one VM in a second, on average at most. Each worker may be ahead by 2 MiB.",
    ),
)
