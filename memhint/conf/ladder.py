"""[ladder]: what is done, and in which order, while the host is under pressure."""

from __future__ import annotations

from oslo_config import cfg, types

from memhint.conf.amounts import MOST_MIB
from memhint.objects.ladder import SEVERITY, Rung

GROUP = "ladder"
_RUNGS = [str(rung) for rung in Rung if rung is not Rung.ADMISSION]

OPTS = (
    cfg.ListOpt(
        "rungs",
        default=_RUNGS,
        item_type=types.String(choices=_RUNGS),
        help="The rungs above 'stop admitting', which is always the first; their order is fixed. The limits of "
        "[planner] are the lowest rung's, a higher one waits for more pressure. What is done to a VM also needs that "
        "VM's own policy: guest_actions for its guest, balloon and swap_out for these two.",
    ),
    cfg.ListOpt(
        "always",
        default=[],
        item_type=types.String(choices=[str(rung) for rung in Rung if SEVERITY[rung].mild]),
        help="What is done to idle VMs while the host is calm, too: reporting sooner, giving back cold page cache, "
        "recycling single pages, reporting finer blocks, or sending to swap what rests, which needs [active] source. A "
        "VM that wakes reads again what it needs again, and reports as before.",
    ),
    cfg.IntOpt(
        "split_least_kib",
        default=64,
        min=0,
        max=2048,
        help="KiB that a calm host must gain for each huge page that `always` splits, by recycling or by reporting "
        "finer blocks; a VM that would give less is left alone. 0 takes whatever there is. Under pressure it does not "
        "count.",
    ),
    cfg.BoolOpt(
        "split_partly_free",
        default=True,
        help="Whether a huge page of an idle VM is split soon after a part of it was given back. Otherwise the kernel "
        "keeps it whole until it is short of memory, and the host has nothing of that part before.",
    ),
    cfg.FloatOpt(
        "climb",
        default=20.0,
        min=0,
        help="Seconds that a rung is given to show an effect before the next one is entered.",
    ),
    cfg.FloatOpt(
        "idle_growth_mib",
        default=1.0,
        min=0,
        max=MOST_MIB,
        help="MiB per second; a VM whose footprint grows no faster is idle.",
    ),
    cfg.FloatOpt(
        "busy_growth_mib",
        default=8.0,
        min=0,
        max=MOST_MIB,
        help="MiB per second; an idle VM whose footprint grows faster is not idle any more.",
    ),
    cfg.FloatOpt(
        "busy_for",
        default=15.0,
        min=0,
        help="Seconds; a VM that is busy for less keeps reporting as it did while it was idle, and is not called.",
    ),
    cfg.IntOpt(
        "delay_ms",
        default=200,
        min=0,
        max=60_000,
        help="Milliseconds between two passes of free page reporting in an idle guest under pressure, or with "
        "`always`.",
    ),
    cfg.IntOpt(
        "fine_order",
        default=4,
        min=0,
        max=10,
        help="Order of the smallest block that an idle guest reports under pressure, or with `always`; finer costs "
        "the guest run time. One whose single pages are recycled reports none below order 4.",
    ),
    cfg.FloatOpt(
        "psi_limit",
        default=10.0,
        min=0,
        max=100,
        help="Percent of memory pressure in a guest at which it stops giving back page cache.",
    ),
    cfg.IntOpt(
        "cache_least_mib",
        default=64,
        min=1,
        max=MOST_MIB,
        help="MiB of page cache below which a guest is not asked for any of it.",
    ),
    cfg.FloatOpt(
        "balloon_step_percent",
        default=10.0,
        min=0.1,
        max=100,
        help="Percent of its memory that an idle best-effort VM is shrunk by in one period.",
    ),
    cfg.FloatOpt(
        "swap_out_step_percent",
        default=5.0,
        min=0.1,
        max=100,
        help="Percent of its resident memory that an idle VM is swapped out by in one period.",
    ),
)
