"""[active]: finding out how much of the VMs' memory is in use."""

from __future__ import annotations

from oslo_config import cfg

GROUP = "active"

OPTS = (
    cfg.StrOpt(
        "source",
        default="off",
        choices=[
            ("off", "nobody looks"),
            ("auto", "damon where it works, else referenced until it does"),
            ("damon", "the kernel's monitor of accesses, where nobody else uses it"),
            ("referenced", "accessed bits, cleared and read back; not of guests under KVM"),
        ],
        help="Who says how much of a VM's memory is in use.",
    ),
    cfg.FloatOpt(
        "cpu_percent",
        default=1.0,
        min=0,
        max=100,
        help="Percent of one core that looking may take, the kernel's own threads included. 0: nobody looks.",
    ),
    cfg.FloatOpt("interval", default=60.0, min=10, help="Seconds between two readings of one VM by damon."),
    cfg.IntOpt(
        "regions",
        default=500,
        min=10,
        max=10000,
        help="Parts of a VM's memory of which damon samples one page each in 10 s.",
    ),
    cfg.FloatOpt(
        "round",
        default=600.0,
        min=10,
        help="Seconds from one clearing of accessed bits to the next, by referenced. Longer ages are not observed.",
    ),
)
"""Watching is off until somebody asks for it: it takes DAMON for memhint, or ages pages that the kernel ages, too."""
