"""Dedup's own options, turned into plain settings, and what looks for equal pages."""

from __future__ import annotations

from oslo_config import cfg

from memhint.kernel.ksm import counts_zero_pages
from memhint.kernel.native import PAGES
from memhint.kernel.root import PAGE_SIZE, KernelRoot
from memhint.levers import dedup
from memhint.objects.units import MIB
from memhint.pages.finder import FinderSettings
from memhint.pages.samples import PageSamples
from memhint.planner.dedup_auto import AutoSettings
from memhint.planner.dedup_breaks import BreakSettings
from memhint.planner.dedup_estimate import KsmPace
from memhint.planner.dedup_settings import MergeSettings

_AT_ONCE_WORKERS = 4  # of a look that somebody waits for


def merge_settings(conf: cfg.ConfigOpts) -> MergeSettings:
    """What the planner is told of who merges."""
    options = conf.dedup
    return MergeSettings(
        auto=AutoSettings(
            enter_percent=options.auto_enter_percent,
            exit_percent=options.auto_exit_percent,
            least=options.auto_least_mib * MIB,
            hold=options.auto_hold,
        ),
        breaks=BreakSettings(least_life=options.page_life, rest=options.rest),
        cross_tenant=options.allow_cross_tenant,
        empty_only=options.zero_pages_only,
        empty_across=options.zero_pages_across_projects,
        await_looks=finder_settings(conf) is not None,
    )


def ksm_pace(conf: cfg.ConfigOpts, root: KernelRoot) -> KsmPace:
    """How KSM would scan, for what it would cost: at most, where memhint paces it, for that is its fast pace."""
    settings = dedup.settings_of(conf)
    return KsmPace(
        advised=settings.advisor == "scan-time",
        target_scan_time=settings.target_scan_time,
        max_cpu=settings.max_cpu,
        pages_to_scan=settings.pages_to_scan or (dedup.FAST[0] if settings.advisor == dedup.ADAPTIVE else None),
        sleep_millisecs=settings.sleep_millisecs,
        use_zero_pages=counts_zero_pages(root) and (settings.use_zero_pages or settings.empty_only),
        empty_only=settings.empty_only,
    )


def finder_settings(conf: cfg.ConfigOpts) -> FinderSettings | None:
    """What the finder may take; None where samples are taken instead."""
    options = conf.dedup
    if not options.finder_workers or not options.estimate_cpu_percent:
        return None
    return FinderSettings(
        workers=options.finder_workers,
        cpu_percent=options.estimate_cpu_percent,
        bytes_per_second=options.finder_mib_per_second * MIB,
        settle=options.estimate_settle,
    )


def finder_at_once(conf: cfg.ConfigOpts, cores: int, settle: float) -> FinderSettings | None:
    """The finder without a budget of CPU, on several cores; None where it was not compiled, and samples are faster."""
    if PAGES is None:
        return None
    workers = min(cores, _AT_ONCE_WORKERS)
    return FinderSettings(workers, 100.0 * workers, conf.dedup.finder_mib_per_second * MIB, settle)


def page_samples(conf: cfg.ConfigOpts, root: KernelRoot) -> PageSamples:
    """What looks at the pages of VMs that may merge."""
    options = conf.dedup
    return PageSamples(
        root,
        PAGE_SIZE,
        options.estimate_cpu_percent,
        options.estimate_interval,
        options.estimate_settle,
        ksm_pace(conf, root),
        finder=finder_settings(conf),
    )
