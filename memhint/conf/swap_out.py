"""[swap_out]: sending cold memory of VMs to disk swap, where their policy allows it."""

from __future__ import annotations

from oslo_config import cfg

GROUP = "swap_out"

OPTS = (
    cfg.BoolOpt(
        "allow_unencrypted",
        default=False,
        help="Whether guests' memory may be written to disk swap that is not on dm-crypt. It can then be read from the "
        "disk, also after it was taken out. A disk that encrypts by itself cannot be told apart: say true for it.",
    ),
    cfg.IntOpt(
        "pull_mib",
        default=256,
        min=1,
        help="MiB that are taken from one VM at a time, at most.",
    ),
    cfg.IntOpt(
        "keep_free_mib",
        default=512,
        min=0,
        help="MiB of disk swap that are left free for everybody else.",
    ),
    cfg.FloatOpt(
        "psi_stop",
        default=10.0,
        min=0.1,
        max=100,
        help="Percent of time that a VM's threads wait for memory, by the memory.pressure of its cgroup; from here on "
        "nothing more is taken from it.",
    ),
    cfg.FloatOpt(
        "patience",
        default=30.0,
        min=1,
        help="Seconds after which taking from one VM ends, however much was to be taken.",
    ),
)
