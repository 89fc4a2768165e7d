"""[nova]: the nova-compute of this host."""

from __future__ import annotations

from oslo_config import cfg

GROUP = "nova"

OPTS = (
    cfg.StrOpt(
        "compute_id",
        default="/var/lib/nova/compute_id",
        help="Path of the file in which nova-compute keeps the UUID of its compute node. Where there is none, this "
        "host is not part of an OpenStack, and a gap if one of config_files is there.",
    ),
    cfg.ListOpt(
        "config_files",
        default=["/etc/nova/nova.conf"],
        help="Configuration files of nova-compute, by commas, later ones winning: looked at for ram_allocation_ratio, "
        "which would overwrite what memhint writes. Empty on a host that has such a file and no nova-compute.",
    ),
)
