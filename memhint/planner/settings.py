"""What an operator can tune of the planner, as plain numbers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, TypeVar

from memhint.objects.ladder import SEVERITY, Rung
from memhint.objects.plan import PredictorName

SettingsT = TypeVar("SettingsT")


@dataclass(frozen=True, slots=True)
class PressureThresholds:
    """Entry and exit of one rung of the ladder. Percent, bytes per second and seconds."""

    psi_enter: float = 10.0  # percent, "some" averaged over 10 s
    psi_exit: float = 2.0
    swap_in_enter: float = 4.0 * 1024 * 1024  # bytes per second
    swap_in_exit: float = 0.5 * 1024 * 1024
    available_enter: float = 3.0  # percent of the pool
    available_exit: float = 6.0
    refault_enter: float = 32.0 * 1024 * 1024  # bytes per second that were dropped and are read again
    refault_exit: float = 8.0 * 1024 * 1024
    cooldown: float = 60.0  # seconds that every signal must stay below its exit
    scarce_enter: float = 15.0  # percent of the pool that is available; with more, memory is not scarce
    scarce_exit: float = 20.0
    needs_scarcity: bool = False  # whether signals other than available memory enter the rung only where it is scarce


@dataclass(frozen=True, slots=True)
class RungLimits:
    """One rung and when it is entered and left."""

    rung: Rung
    limits: PressureThresholds


def rungs(lowest: PressureThresholds, wanted: tuple[Rung, ...] = tuple(Rung)) -> tuple[RungLimits, ...]:
    """The rungs of a ladder, lowest first, each with limits that follow from those of the lowest.

    A higher rung waits for more pressure and less available memory, and is left sooner.
    """
    found = []
    for rung in Rung:
        if rung not in wanted:
            continue
        severity = SEVERITY[rung]
        pressure, available = severity.pressure, severity.available
        found.append(
            RungLimits(
                rung,
                replace(
                    lowest,
                    psi_enter=min(100.0, lowest.psi_enter * pressure),
                    psi_exit=min(100.0, lowest.psi_exit * pressure),
                    swap_in_enter=lowest.swap_in_enter * pressure,
                    swap_in_exit=lowest.swap_in_exit * pressure,
                    refault_enter=lowest.refault_enter * pressure,
                    refault_exit=lowest.refault_exit * pressure,
                    available_enter=lowest.available_enter * available,
                    available_exit=lowest.available_exit * available,
                    scarce_enter=lowest.scarce_enter * available,
                    scarce_exit=lowest.scarce_exit * available,
                    needs_scarcity=severity.takes,
                ),
            )
        )
    return tuple(found)


@dataclass(frozen=True, slots=True)
class LadderSettings:
    """Seconds, bytes, percent; what the rungs do once they are entered."""

    rungs: tuple[RungLimits, ...] = rungs(PressureThresholds())
    climb: float = 20.0  # a rung is given this long to show before the next is entered
    idle_growth: float = 1024.0 * 1024  # bytes per second; a guest that grows less is idle
    busy_growth: float = 8.0 * 1024 * 1024  # an idle guest that grows more is not any more
    busy_for: float = 15.0  # seconds; a guest that is busy for less keeps how it reports
    delay_ms: int = 200  # between two passes of reporting
    fine_order: int = 4  # smallest reported block: 64 KiB
    psi_limit: float = 10.0  # percent, where a guest stops giving back its cache
    cache_least: int = 64 << 20  # a guest with less page cache is left alone
    recycler_bytes: int = 256 << 20  # per second, of one VM
    balloon_step_percent: float = 10.0  # of the VM's memory, per cycle
    swap_out_step_percent: float = 5.0  # of the VM's RSS, per cycle
    always: frozenset[Rung] = frozenset()  # of the milder ones: done to idle VMs while the host is calm, too
    split_least: int = 64 << 10  # bytes that a calm host must gain for each huge page that taking pieces splits


@dataclass(frozen=True, slots=True)
class PlannerSettings:
    """Bytes, seconds and percent."""

    period: float = 10.0
    reserve: int = 1 << 30
    reserve_percent: float = 5.0  # of the pool; the larger of the two holds
    allow_unbacked: int = 0
    overhead: int = 128 << 20  # QEMU's own memory, per VM
    new_vm_decay: float = 600.0
    predictor: PredictorName = PredictorName.DECAYING_PEAK
    peak_half_life: float = 1209600.0  # of decaying_peak
    forecast_window: float = 1209600.0  # of quantile and n_sigma
    quantile: float = 0.95  # 0 to 1
    sigmas: float = 5.0
    other_window: float = 3600.0
    fault_in_window: float = 3600.0
    raise_percent_per_minute: float = 5.0  # of the pool
    raise_hysteresis_percent: float = 1.0  # of the pool
    max_ratio: float = 1.5  # the least of the host's and its aggregates'
    earned_max_ratio: float = 0.0  # how far it may rise on evidence; no further than max_ratio: it does not
    spare_for_group: bool = True  # the spare covers the largest anti-affinity group, not one VM only
    growth_floor: bool = True  # no VM counts with less than the fleet's growth table says
    storm_percent: int = 10  # of VMs that come back to their full size at once, unannounced
    storm_learn: bool = False  # ... or as many as came in the worst hour of four weeks
    node_reserve: int = 0  # per NUMA node
    node_reserve_percent: float = 2.0  # of the node; the larger of the two holds
    lever_latency: float = 10.0  # how long reclaiming takes to show
    ladder: LadderSettings = LadderSettings()
    levers: tuple[Any, ...] = ()  # what single levers are told: of each a record of its own type

    def of(self, kind: type[SettingsT]) -> SettingsT:
        """What one lever is told; as shipped where nothing is."""
        for one in self.levers:
            if isinstance(one, kind):
                return one
        return kind()

    def reserve_of(self, pool: int) -> int:
        """What the host keeps of a pool of this size."""
        return max(self.reserve, int(pool * self.reserve_percent / 100))

    def node_reserve_of(self, total: int) -> int:
        """What the host keeps of a NUMA node of this size."""
        return max(self.node_reserve, int(total * self.node_reserve_percent / 100))
