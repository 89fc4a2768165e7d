"""[khugepaged]: holding the kernel back from filling again what was taken from VMs in small pieces."""

from __future__ import annotations

from oslo_config import cfg

GROUP = "khugepaged"

OPTS = (
    cfg.BoolOpt(
        "own",
        default=False,
        help="Whether memhint may set khugepaged's max_ptes_none, which holds for the whole host, while VMs merge, "
        "recycle pages or report blocks below 2 MiB. Otherwise it only says where khugepaged may fill them again.",
    ),
    cfg.IntOpt(
        "max_ptes_none",
        default=64,
        min=0,
        max=511,
        help="Absent pages of the 512 of a huge page that khugepaged may give memory meanwhile.",
    ),
)
