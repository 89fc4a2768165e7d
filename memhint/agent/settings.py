"""The configuration, turned into the planner's plain settings: MiB become bytes here.

A lever's own options are turned into its settings where it is built, in its own file.
"""

from __future__ import annotations

from oslo_config import cfg

from memhint.conf.aggregate import earned_max_ratio, max_ratio
from memhint.kernel.native import PAGES
from memhint.levers import dedup
from memhint.objects.ladder import Rung
from memhint.objects.plan import PredictorName
from memhint.objects.units import KIB, MIB
from memhint.pages.finder import FinderSettings
from memhint.planner.cold import ColdSettings
from memhint.planner.dedup_auto import AutoSettings
from memhint.planner.dedup_breaks import BreakSettings
from memhint.planner.dedup_estimate import KsmPace
from memhint.planner.settings import LadderSettings, PlannerSettings, PressureThresholds, rungs
from memhint.planner.thp import CollapseSettings

_AT_ONCE_WORKERS = 4  # of a look that somebody waits for


def planner_settings(conf: cfg.ConfigOpts) -> PlannerSettings:
    """What the planner is told."""
    options = conf.planner
    return PlannerSettings(
        period=conf.period,
        reserve=conf.host.reserve_mib * MIB,
        reserve_percent=conf.host.reserve_percent,
        allow_unbacked=conf.host.allow_unbacked_mib * MIB,
        overhead=options.overhead_mib * MIB,
        new_vm_decay=options.new_vm_decay,
        predictor=PredictorName(options.predictor),
        peak_half_life=options.peak_half_life,
        forecast_window=options.forecast_window,
        quantile=options.quantile_percent / 100,
        sigmas=options.sigmas,
        other_window=options.other_window,
        fault_in_window=options.fault_in_window,
        raise_percent_per_minute=options.raise_percent_per_minute,
        raise_hysteresis_percent=options.raise_hysteresis_percent,
        max_ratio=max_ratio(conf),
        earned_max_ratio=earned_max_ratio(conf),
        spare_for_group=options.spare_for_group,
        growth_floor=options.growth_floor,
        storm_percent=options.storm_percent,
        storm_learn=options.storm_learn,
        node_reserve=conf.host.node_reserve_mib * MIB,
        node_reserve_percent=conf.host.node_reserve_percent,
        lever_latency=conf.guest.interval,
        ladder=ladder_settings(conf),
        collapse=CollapseSettings(
            most=conf.thp.pass_mib * MIB, window=conf.thp.window, work_cpu=conf.thp.work_cpu_percent
        ),
        cold=ColdSettings(after=conf.swap_out.cold_after, back_percent=conf.swap_out.cold_back_percent),
        dedup_auto=AutoSettings(
            enter_percent=conf.dedup.auto_enter_percent,
            exit_percent=conf.dedup.auto_exit_percent,
            least=conf.dedup.auto_least_mib * MIB,
            hold=conf.dedup.auto_hold,
        ),
        dedup_breaks=BreakSettings(least_life=conf.dedup.page_life, rest=conf.dedup.rest),
        dedup_cross_tenant=conf.dedup.allow_cross_tenant,
        dedup_empty_only=conf.dedup.zero_pages_only,
        dedup_empty_across=conf.dedup.zero_pages_across_projects,
        dedup_await_looks=finder_settings(conf) is not None,
    )


def ladder_settings(conf: cfg.ConfigOpts) -> LadderSettings:
    """What the pressure ladder is told. Its lowest rung stays whatever is chosen: stopping to admit is no option."""
    options, ladder = conf.planner, conf.ladder
    lowest = PressureThresholds(
        psi_enter=options.psi_enter,
        psi_exit=options.psi_exit,
        swap_in_enter=options.swap_in_enter_mib * MIB,
        swap_in_exit=options.swap_in_exit_mib * MIB,
        available_enter=options.available_enter_percent,
        available_exit=options.available_exit_percent,
        refault_enter=options.refault_enter_mib * MIB,
        refault_exit=options.refault_exit_mib * MIB,
        cooldown=options.cooldown,
        scarce_enter=options.scarce_enter_percent,
        scarce_exit=options.scarce_exit_percent,
    )
    return LadderSettings(
        rungs=rungs(lowest, (Rung.ADMISSION, *(Rung(name) for name in ladder.rungs))),
        climb=ladder.climb,
        busy_for=ladder.busy_for,
        idle_growth=ladder.idle_growth_mib * MIB,
        busy_growth=ladder.busy_growth_mib * MIB,
        delay_ms=ladder.delay_ms,
        fine_order=ladder.fine_order,
        psi_limit=ladder.psi_limit,
        cache_least=ladder.cache_least_mib * MIB,
        recycler_bytes=conf.recycler.max_mib * MIB,
        balloon_step_percent=ladder.balloon_step_percent,
        swap_out_step_percent=ladder.swap_out_step_percent,
        always=frozenset(Rung(name) for name in ladder.always),
        split_least=ladder.split_least_kib * KIB,
    )


def ksm_pace(conf: cfg.ConfigOpts) -> KsmPace:
    """How KSM would scan, for what it would cost: at most, where memhint paces it, for that is its fast pace."""
    settings = dedup.settings_of(conf)
    return KsmPace(
        advised=settings.advisor == "scan-time",
        target_scan_time=settings.target_scan_time,
        max_cpu=settings.max_cpu,
        pages_to_scan=settings.pages_to_scan or (dedup.FAST[0] if settings.advisor == dedup.ADAPTIVE else None),
        sleep_millisecs=settings.sleep_millisecs,
        use_zero_pages=settings.use_zero_pages or settings.empty_only,
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


def slot(conf: cfg.ConfigOpts) -> int:
    """Bytes of the VM that "how many more fit" is counted in."""
    return int(conf.planner.slot_mib + conf.planner.overhead_mib) * MIB
