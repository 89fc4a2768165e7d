"""The signals of a host that runs short, held against one rung's limits."""

from __future__ import annotations

from dataclasses import dataclass

from memhint.planner.settings import PressureThresholds


@dataclass(frozen=True, slots=True)
class PressureSample:
    """The signals of one cycle; None where the host does not have one."""

    psi_some: float | None  # percent
    swap_in: float | None  # bytes per second
    available: float  # percent of the pool
    refault: float | None = None  # bytes per second that were dropped and are read again


def alarms(sample: PressureSample, limits: PressureThresholds) -> list[str]:
    """The signals that enter the rung, in words; empty where none does."""
    found = []
    if sample.psi_some is not None and sample.psi_some >= limits.psi_enter:
        found.append(f"memory pressure {sample.psi_some:.1f} % (enters at {limits.psi_enter:g} %)")
    if sample.swap_in is not None and sample.swap_in >= limits.swap_in_enter:
        found.append(f"swap-in {sample.swap_in / 2**20:.1f} MiB/s (enters at {limits.swap_in_enter / 2**20:g})")
    if sample.refault is not None and sample.refault >= limits.refault_enter:
        found.append(f"refaults {sample.refault / 2**20:.1f} MiB/s (enters at {limits.refault_enter / 2**20:g})")
    if sample.available <= limits.available_enter:
        found.append(f"available {sample.available:.1f} % of the pool (enters at {limits.available_enter:g} %)")
    return found


def calm(sample: PressureSample, limits: PressureThresholds) -> bool:
    """Whether every signal there is lies at or below the rung's exit."""
    return (
        (sample.psi_some is None or sample.psi_some <= limits.psi_exit)
        and (sample.swap_in is None or sample.swap_in <= limits.swap_in_exit)
        and (sample.refault is None or sample.refault <= limits.refault_exit)
        and sample.available >= limits.available_exit
    )
