"""[dedup]: the page merging lever (KSM)."""

from __future__ import annotations

from oslo_config import cfg

GROUP = "dedup"

OPTS = (
    cfg.BoolOpt(
        "allow_monitor_commands",
        default=False,
        help="Whether merging may be switched per VM through QEMU's monitor. It is the only way while a VM runs, and "
        "libvirt marks the VM as tainted for it: every VM of the host, because those that do not merge are switched "
        "off. Without it nothing is merged. The same leave lets memhint read what QEMU discarded of reported memory, "
        "where QEMU counts it.",
    ),
    cfg.BoolOpt(
        "allow_cross_tenant",
        default=False,
        help="Whether VMs of different projects may share merged pages. Shared pages are a side channel: one VM can "
        "learn what memory the other has.",
    ),
    cfg.StrOpt(
        "advisor",
        default="scan-time",
        choices=[
            ("scan-time", "the kernel's own advisor (Linux 6.8 and later), by the two options below"),
            ("none", "the fixed pages_to_scan and sleep_millisecs"),
        ],
        help="Who paces KSM.",
    ),
    cfg.IntOpt(
        "target_scan_time",
        default=200,
        min=1,
        help="Seconds in which the advisor aims to scan all mergeable memory once.",
    ),
    cfg.IntOpt("max_cpu", default=70, min=1, max=100, help="Percent of one CPU that the advisor lets KSM take."),
    cfg.IntOpt(
        "pages_to_scan",
        default=0,
        min=0,
        help="Pages that KSM scans between two sleeps, with advisor=none. 0: left as it is.",
    ),
    cfg.IntOpt(
        "sleep_millisecs",
        default=-1,
        min=-1,
        help="Milliseconds that KSM sleeps between two scans. -1: left as it is.",
    ),
    cfg.BoolOpt(
        "use_zero_pages",
        default=True,
        help="Whether pages of zeros are merged with the kernel's zero page.",
    ),
)
