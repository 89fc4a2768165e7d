"""The configuration, turned into the planner's plain settings: MiB become bytes here.

What the planner is told of single levers is made here, too; what a lever itself is told is made where it is built.
"""

from __future__ import annotations

from oslo_config import cfg

from memhint.agent.build_dedup import merge_settings
from memhint.conf.aggregate import earned_max_ratio, max_ratio
from memhint.objects.ladder import Rung
from memhint.objects.plan import PredictorName
from memhint.objects.units import KIB, MIB
from memhint.planner.cold import ColdSettings
from memhint.planner.settings import LadderSettings, PlannerSettings, PressureThresholds, rungs
from memhint.planner.thp import CollapseSettings


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
        levers=(
            CollapseSettings(most=conf.thp.pass_mib * MIB, window=conf.thp.window, work_cpu=conf.thp.work_cpu_percent),
            ColdSettings(after=conf.swap_out.cold_after, back_percent=conf.swap_out.cold_back_percent),
            merge_settings(conf),
        ),
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


def slot(conf: cfg.ConfigOpts) -> int:
    """Bytes of the VM that "how many more fit" is counted in."""
    return int(conf.planner.slot_mib + conf.planner.overhead_mib) * MIB
