"""[host]: which memory the VMs share and what of it is kept back."""

from __future__ import annotations

from oslo_config import cfg, types

from memhint.conf.amounts import MOST_MIB

GROUP = "host"
_CGROUP = r"^(/.*)?$"

OPTS = (
    cfg.StrOpt(
        "memory_cgroup",
        default="",
        regex=_CGROUP,
        help="Absolute path of a memory cgroup (v1 or v2) that holds all VMs: /sys/fs/cgroup/machine.slice, say. "
        "Its limit is then the memory that is planned with. Empty: the whole machine.",
    ),
    cfg.StrOpt(
        "pressure_cgroup",
        default="",
        regex=_CGROUP,
        help="Absolute path of the cgroup whose memory.pressure is watched. Empty: the pressure of the whole machine.",
    ),
    cfg.IntOpt(
        "reserve_mib",
        default=1024,
        min=0,
        max=MOST_MIB,
        help="MiB that are never promised to a VM. The larger of reserve_mib and reserve_percent holds.",
    ),
    cfg.FloatOpt(
        "reserve_percent",
        default=5.0,
        min=0,
        max=100,
        help="Percent of the host's memory that are never promised to a VM. The larger of reserve_mib and "
        "reserve_percent holds.",
    ),
    cfg.IntOpt(
        "allow_unbacked_mib",
        default=0,
        min=0,
        max=MOST_MIB,
        help="MiB that may be promised beyond memory and disk swap. If every VM claims its memory at once, VMs are "
        "killed for these. 0: nothing is promised that could not be backed.",
    ),
    cfg.FloatOpt(
        "max_ratio",
        default=1.5,
        min=0,
        max=100,
        help="How much may be promised to VMs in all, as a multiple of the host's memory less its reserve. An "
        "aggregate's maximum holds where it is less.",
    ),
    cfg.FloatOpt(
        "earned_max_ratio",
        default=0.0,
        min=0,
        max=100,
        help="How far max_ratio may rise on a host whose own last weeks say that more VMs like its own would have fit. "
        "An aggregate's maximum holds where it is less. No more than max_ratio: it never rises.",
    ),
    cfg.IntOpt(
        "node_reserve_mib",
        default=0,
        min=0,
        max=MOST_MIB,
        help="MiB of each NUMA node that are kept free for VMs that are bound to it. The larger of node_reserve_mib "
        "and node_reserve_percent holds.",
    ),
    cfg.FloatOpt(
        "node_reserve_percent",
        default=2.0,
        min=0,
        max=100,
        help="Percent of each NUMA node that are kept free for VMs that are bound to it. The larger of "
        "node_reserve_mib and node_reserve_percent holds.",
    ),
    cfg.ListOpt(
        "aggregates",
        default=[],
        item_type=types.String(regex=r"^[a-z0-9_-]{1,64}$"),
        help="Names of the aggregates that this host belongs to, by commas. Each may have a section [aggregate_name]; "
        "where two say different things, the one that is named first here holds.",
    ),
)
