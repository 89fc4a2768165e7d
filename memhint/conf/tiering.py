"""[tiering]: moving VMs' memory between NUMA nodes, where their policy allows it."""

from __future__ import annotations

from oslo_config import cfg

GROUP = "tiering"

OPTS = (
    cfg.IntOpt(
        "rate_mib",
        default=100,
        min=1,
        max=100_000,
        help="MiB a second that are moved, at most, all VMs together.",
    ),
    cfg.IntOpt(
        "threads",
        default=2,
        min=1,
        max=64,
        help="Threads that move memory beside each other.",
    ),
    cfg.FloatOpt(
        "every",
        default=60.0,
        min=1,
        max=86_400,
        help="Seconds from one look at where VMs' memory lies to the next, at most. It comes earlier where it is newly "
        "known what is in use, as far as looking takes 1 % of a CPU. A pass of moves takes 20 s at most.",
    ),
    cfg.FloatOpt(
        "hot",
        default=20.0,
        min=0,
        max=86_400,
        help="Seconds for which each sample of a range has to be touched until the range is moved to a fast node.",
    ),
    cfg.FloatOpt(
        "cold",
        default=300.0,
        min=1,
        max=864_000,
        help="Seconds for which no sample of a range may be touched until it is moved to a slow node, to keep "
        "free_percent free.",
    ),
    cfg.FloatOpt(
        "exchange",
        default=30.0,
        min=1,
        max=864_000,
        help="Seconds for which no sample of a range may be touched until it is moved to a slow node in exchange for "
        "one that is hot.",
    ),
    cfg.FloatOpt(
        "psi_stop",
        default=5.0,
        min=0.1,
        max=100,
        help="Percent of time that a VM waits for its memory; from here on nothing of it is moved. The host's pressure "
        "counts for all of them.",
    ),
    cfg.FloatOpt(
        "free_percent",
        default=5.0,
        min=0,
        max=90,
        help="Percent of a fast node that stay free, page cache included: what is hot comes up to there, and beyond it "
        "cold memory goes down. A slow node keeps [host] node_reserve_percent.",
    ),
)
