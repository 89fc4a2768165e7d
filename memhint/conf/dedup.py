"""[dedup]: the page merging lever (KSM)."""

from __future__ import annotations

from oslo_config import cfg

from memhint.conf.amounts import MOST_MIB

GROUP = "dedup"

OPTS = (
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
            ("adaptive", "memhint: fast while idle VMs hold memory that KSM has not been over, slow otherwise"),
            ("none", "the fixed pages_to_scan and sleep_millisecs"),
        ],
        help="Who paces KSM.",
    ),
    cfg.IntOpt(
        "target_scan_time",
        default=200,
        min=1,
        help="Seconds in which the advisor of advisor=scan-time aims to scan all mergeable memory once.",
    ),
    cfg.IntOpt(
        "max_cpu",
        default=70,
        min=1,
        max=100,
        help="Percent of one CPU that the advisor of advisor=scan-time lets KSM take. "
        "advisor=adaptive does not heed it.",
    ),
    cfg.IntOpt(
        "pages_to_scan",
        default=0,
        min=0,
        help="Pages that KSM scans between two sleeps, with advisor=none, and at the fast pace of advisor=adaptive. 0: "
        "left as it is; 5000 at the fast pace.",
    ),
    cfg.IntOpt(
        "sleep_millisecs",
        default=-1,
        min=-1,
        help="Milliseconds that KSM sleeps between two scans, with advisor=none, and at the fast pace of "
        "advisor=adaptive. -1: left as it is; 20 at the fast pace.",
    ),
    cfg.BoolOpt(
        "use_zero_pages",
        default=True,
        help="Whether pages of zeros are merged with the kernel's zero page.",
    ),
    cfg.BoolOpt(
        "zero_pages_only",
        default=False,
        help="Whether nothing but pages of zeros is merged, which takes a small part of KSM's work: for guests that "
        "zero what they free, as Linux does with init_on_free=1, and Windows. It takes a kernel that can: Red Hat "
        "Enterprise Linux 9.9, or one with memhint's patches for hosts. On others nothing is merged then.",
    ),
    cfg.BoolOpt(
        "zero_pages_across_projects",
        default=False,
        help="Whether VMs of several projects may have the kernel's zero page in the place of pages at the same time. "
        "Without it zero_pages_only is for one project at a time, and where KSM keeps projects apart, pages of zeros "
        "are merged within each while several merge.",
    ),
    cfg.FloatOpt(
        "estimate_cpu_percent",
        default=0.5,
        min=0,
        max=100,
        help="Percent of one core that looking at VMs' pages may take, to estimate what merging would save. At 0.5 a "
        "GiB in use takes one to four minutes. 0: nothing is estimated, and dedup=auto stays off.",
    ),
    cfg.FloatOpt(
        "estimate_interval",
        default=3600.0,
        min=1,
        help="Seconds after which the pages of a VM are looked at again, at least.",
    ),
    cfg.FloatOpt(
        "estimate_settle",
        default=60.0,
        min=0.1,
        help="Seconds between two looks at the same page. One that changes in between is not counted: KSM would leave "
        "it alone, too.",
    ),
    cfg.IntOpt(
        "finder_workers",
        default=0,
        min=0,
        max=64,
        help="Threads that look at all pages of a project's VMs, within estimate_cpu_percent, which is then of all of "
        "them together. The estimate is exact then, and takes less CPU where few pages have an equal. A VM begins to "
        "merge when it has been looked at, and where its QEMU can mark ranges of memory, only what has an equal is "
        "merged. 0: samples are taken, and whole VMs are merged.",
    ),
    cfg.IntOpt(
        "finder_mib_per_second",
        default=1024,
        min=1,
        max=MOST_MIB,
        help="MiB of VMs' memory that these threads together read in a second, at most.",
    ),
    cfg.FloatOpt(
        "auto_enter_percent",
        default=10.0,
        min=0,
        max=100,
        help="Percent of the memory of a project's asking VMs that merging must surely save, KSM's own memory taken "
        "off, before dedup=auto begins.",
    ),
    cfg.FloatOpt(
        "auto_exit_percent",
        default=5.0,
        min=0,
        max=100,
        help="Percent below which it ends again. Below auto_enter_percent.",
    ),
    cfg.IntOpt(
        "auto_least_mib", default=256, min=0, max=MOST_MIB, help="MiB that must surely be saved before it begins."
    ),
    cfg.FloatOpt(
        "auto_hold",
        default=3600.0,
        min=0,
        help="Seconds for which dedup=auto begins nothing for a project whose merging KSM itself counted as a loss "
        "(general_profit below 0).",
    ),
    cfg.FloatOpt(
        "page_life",
        default=60.0,
        min=0,
        help="Seconds that merged pages of a VM must stay merged, on the average, or it is left alone for a while: "
        "each write to one costs a page fault and a copy. 0: no VM is.",
    ),
    cfg.FloatOpt(
        "rest",
        default=1800.0,
        min=1,
        help="Seconds for which such a VM is left alone. Each further time it is twice as long, four times at most.",
    ),
)
