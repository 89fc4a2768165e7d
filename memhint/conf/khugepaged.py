"""[khugepaged]: how the kernel goes about huge pages for all VMs alike, as far as memhint may set it."""

from __future__ import annotations

from oslo_config import cfg

GROUP = "khugepaged"

OPTS = (
    cfg.BoolOpt(
        "own",
        default=False,
        help="Whether memhint may set what holds for the whole host, and puts back: khugepaged's max_ptes_none while "
        "VMs merge, recycle pages or report blocks below 2 MiB, its scan_sleep_millisecs while VMs get huge pages "
        "again, and transparent_hugepage/defrag while VMs wait for huge pages in vain or a rung is entered. Otherwise "
        "it only says what it would set. It gains what khugepaged would fill again: of pages that were free one by "
        "one the recycler gave back 95.9 percent, without this 76. It costs huge pages, of all processes of the host: "
        "what has more than max_ptes_none absent pages stays in small pages.",
    ),
    cfg.IntOpt(
        "max_ptes_none",
        default=64,
        min=0,
        max=511,
        help="Absent pages of the 512 of a huge page that khugepaged may give memory meanwhile. Fewer keep more of "
        "what was given back, and leave more in small pages; Linux has 511.",
    ),
    cfg.FloatOpt(
        "far_huge_ratio",
        default=0.0,
        min=0.0,
        max=100.0,
        help="How long an access to a huge page of another node takes on this host, over one to small pages of the own "
        "node; `python -m memhint.kernel.memory_latency` measures it. Above 1, and where own is set, a first touch "
        "takes small pages of its node rather than a huge one of another. 0: not measured, and the kernel's own order "
        "holds.",
    ),
)
