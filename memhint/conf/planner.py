"""[planner]: how demand is forecast and when a host stops admitting."""

from __future__ import annotations

from oslo_config import cfg

from memhint.conf.amounts import MOST_MIB, MOST_OVERHEAD_MIB
from memhint.objects.plan import PredictorName

GROUP = "planner"

OPTS = (
    cfg.IntOpt(
        "overhead_mib", default=128, min=0, max=MOST_OVERHEAD_MIB, help="MiB that QEMU itself takes for one VM."
    ),
    cfg.IntOpt(
        "slot_mib",
        default=1024,
        min=1,
        max=MOST_MIB,
        help="Size in MiB of the VM that is meant by 'so many more fit', without QEMU's overhead.",
    ),
    cfg.FloatOpt(
        "new_vm_decay",
        default=600.0,
        min=0,
        help="Seconds in which the demand of a new VM falls from its full size to the forecast.",
    ),
    cfg.StrOpt(
        "predictor",
        default=str(PredictorName.DECAYING_PEAK),
        choices=[
            (str(PredictorName.DECAYING_PEAK), "each VM's peak, falling towards what it uses now"),
            (str(PredictorName.QUANTILE), "what each VM stayed below for most of a window"),
            (str(PredictorName.N_SIGMA), "mean and deviation of the sum of all VMs over a window"),
        ],
        help="Who forecasts what VMs will need. With another one than before every VM counts as new.",
    ),
    cfg.FloatOpt(
        "peak_half_life",
        default=1209600.0,
        min=1,
        help="Seconds in which the remembered peak of a VM's footprint falls half way to what it uses now, with "
        "predictor=decaying_peak.",
    ),
    cfg.FloatOpt(
        "forecast_window",
        default=1209600.0,
        min=48,
        help="Seconds that predictor=quantile and predictor=n_sigma look back.",
    ),
    cfg.FloatOpt(
        "quantile_percent",
        default=95.0,
        min=1,
        max=100,
        help="Percent of the window for which a VM stayed below its forecast, with predictor=quantile.",
    ),
    cfg.FloatOpt(
        "sigmas",
        default=5.0,
        min=0,
        max=100,
        help="Standard deviations by which the forecast of the host's sum lies above its mean, with predictor=n_sigma.",
    ),
    cfg.BoolOpt(
        "spare_for_group",
        default=True,
        help="Whether the reserve for VMs that grow suffices for all VMs of one anti-affinity group (policy key group) "
        "at once, and not for the largest VM only.",
    ),
    cfg.BoolOpt(
        "growth_floor",
        default=True,
        help="Whether no VM counts with less than VMs of the fleet came to that were as old and used as much. The "
        "controllers learn it; without them nothing is known, and this changes nothing.",
    ),
    cfg.IntOpt(
        "storm_percent",
        default=10,
        min=0,
        max=100,
        help="Percent of all VMs that may come back to their full size at once, unannounced, and for which the reserve "
        "for VMs that grow suffices.",
    ),
    cfg.BoolOpt(
        "storm_learn",
        default=False,
        help="Whether that reserve suffices for as many VMs, too, as came back at once in this host's worst hour of "
        "the last four weeks. Never for fewer than storm_percent.",
    ),
    cfg.FloatOpt(
        "other_window",
        default=3600.0,
        min=1,
        help="Seconds over which the peak of the host's other work is remembered.",
    ),
    cfg.FloatOpt(
        "fault_in_window",
        default=3600.0,
        min=1,
        help="Seconds over which the rate at which VMs take memory back is remembered.",
    ),
    cfg.FloatOpt(
        "raise_percent_per_minute",
        default=5.0,
        min=0.01,
        max=6000,
        help="Percent of the host's memory by which the headroom may rise per minute. It falls at once.",
    ),
    cfg.FloatOpt(
        "raise_hysteresis_percent",
        default=1.0,
        min=0,
        max=100,
        help="Percent of the host's memory by which there must be more than was promised before the headroom rises.",
    ),
    cfg.FloatOpt(
        "psi_enter",
        default=10.0,
        min=0,
        max=100,
        help="Percent of memory pressure (PSI, some, avg10) at and above which the host stops admitting.",
    ),
    cfg.FloatOpt(
        "psi_exit",
        default=2.0,
        min=0,
        max=100,
        help="Percent of memory pressure (PSI, some, avg10) at and below which it may admit again. Below psi_enter.",
    ),
    cfg.FloatOpt(
        "swap_in_enter_mib",
        default=4.0,
        min=0,
        max=MOST_MIB,
        help="MiB per second swapped in, at and above which the host stops admitting.",
    ),
    cfg.FloatOpt(
        "swap_in_exit_mib",
        default=0.5,
        min=0,
        max=MOST_MIB,
        help="MiB per second swapped in, at and below which it may admit again. Below swap_in_enter_mib.",
    ),
    cfg.FloatOpt(
        "available_enter_percent",
        default=3.0,
        min=0,
        max=100,
        help="Percent of the host's memory that are available, at and below which the host stops admitting.",
    ),
    cfg.FloatOpt(
        "available_exit_percent",
        default=6.0,
        min=0,
        max=100,
        help="Percent of the host's memory that are available, at and above which it may admit again. "
        "Above available_enter_percent.",
    ),
    cfg.FloatOpt(
        "refault_enter_mib",
        default=32.0,
        min=0,
        max=MOST_MIB,
        help="MiB per second that were reclaimed and are wanted again, at and above which the host stops admitting.",
    ),
    cfg.FloatOpt(
        "refault_exit_mib",
        default=8.0,
        min=0,
        max=MOST_MIB,
        help="MiB per second that were reclaimed and are wanted again, at and below which it may admit again. "
        "Below refault_enter_mib.",
    ),
    cfg.FloatOpt(
        "scarce_enter_percent",
        default=15.0,
        min=0,
        max=100,
        help="Percent of the host's memory that are available, at and below which memory counts as scarce. While it is "
        "not, pressure, swap-in and refaults count as far as they are the VMs' own, where the kernel tells, and enter "
        "no rung that takes anything from VMs.",
    ),
    cfg.FloatOpt(
        "scarce_exit_percent",
        default=20.0,
        min=0,
        max=100,
        help="Percent of the host's memory that are available, at and above which memory does not count as scarce any "
        "more. Above scarce_enter_percent.",
    ),
    cfg.FloatOpt(
        "cooldown",
        default=60.0,
        min=0,
        help="Seconds for which every signal must have been calm before the host admits again.",
    ),
)
