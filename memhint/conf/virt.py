"""[virt]: the connection to libvirt."""

from __future__ import annotations

from oslo_config import cfg

GROUP = "virt"

OPTS = (
    cfg.StrOpt("uri", default="qemu:///system", help="URI of the libvirt connection; it must be one of this host."),
    cfg.StrOpt(
        "run_dir",
        default="/run/libvirt/qemu",
        regex=r"^/.*$",
        help="Absolute path of the directory in which libvirt keeps the process ids of its VMs.",
    ),
    cfg.FloatOpt(
        "stats_timeout",
        default=2.0,
        min=0.1,
        max=60,
        help="Seconds to wait for libvirt's statistics of all VMs.",
    ),
    cfg.FloatOpt(
        "refresh",
        default=300.0,
        min=1,
        help="Seconds after which a VM's XML is read again although no event told of a change.",
    ),
    cfg.BoolOpt(
        "allow_monitor_commands",
        default=False,
        deprecated_group="dedup",
        deprecated_name="allow_monitor_commands",  # said again, so that the sample shows it
        help="Whether memhint may use QEMU's monitor, for which libvirt marks a VM as tainted. It is the only way to "
        "switch merging per VM while it runs: of every VM of the host, because those that do not merge are switched "
        "off; without it nothing is merged. The page recycler needs it, too, and so does reading what QEMU discarded "
        "of reported memory, where QEMU counts it.",
    ),
)
