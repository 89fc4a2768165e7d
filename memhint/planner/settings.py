"""What an operator can tune of the planner, as plain numbers."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PressureThresholds:
    """Entry and exit of "stop admitting". Percent, bytes per second and seconds."""

    psi_enter: float = 10.0  # percent, "some" averaged over 10 s
    psi_exit: float = 2.0
    swap_in_enter: float = 4.0 * 1024 * 1024  # bytes per second
    swap_in_exit: float = 0.5 * 1024 * 1024
    available_enter: float = 3.0  # percent of the pool
    available_exit: float = 6.0
    cooldown: float = 60.0  # seconds that every signal must stay below its exit


@dataclass(frozen=True, slots=True)
class PlannerSettings:
    """Bytes, seconds and percent."""

    period: float = 10.0
    reserve: int = 1 << 30
    reserve_percent: float = 5.0  # of the pool; the larger of the two holds
    allow_unbacked: int = 0
    overhead: int = 128 << 20  # QEMU's own memory, per VM
    new_vm_decay: float = 600.0
    peak_half_life: float = 600.0
    other_window: float = 3600.0
    fault_in_window: float = 3600.0
    raise_percent_per_minute: float = 5.0  # of the pool
    lever_latency: float = 10.0  # how long reclaiming takes to show
    pressure: PressureThresholds = PressureThresholds()

    def reserve_of(self, pool: int) -> int:
        """What the host keeps of a pool of this size."""
        return max(self.reserve, int(pool * self.reserve_percent / 100))
