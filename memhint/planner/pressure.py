"""Whether the host admits: a pure state function with an entry, an exit and a cooldown for every signal."""

from __future__ import annotations

from dataclasses import dataclass

from memhint.objects.plan import PressureVerdict
from memhint.planner.settings import PressureThresholds


@dataclass(frozen=True, slots=True)
class PressureSample:
    """The signals of one cycle; None where the host does not have one."""

    psi_some: float | None  # percent
    swap_in: float | None  # bytes per second
    available: float  # percent of the pool


@dataclass(frozen=True, slots=True)
class PressureState:
    """``calm_since`` is when every signal fell below its exit; None while one has not."""

    entered: bool = False
    calm_since: float | None = None
    why: str = ""


def next_pressure(
    state: PressureState, sample: PressureSample, now: float, limits: PressureThresholds
) -> PressureState:
    """The state after one more sample. Entering is immediate; leaving takes ``cooldown`` seconds of calm."""
    alarms = _alarms(sample, limits)
    if alarms:
        return PressureState(True, None, "; ".join(alarms))
    if not state.entered:
        return PressureState()
    if not _calm(sample, limits):
        return PressureState(True, None, state.why)
    since = now if state.calm_since is None else state.calm_since
    if now - since >= limits.cooldown:
        return PressureState()
    return PressureState(True, since, state.why)


def verdict(state: PressureState, now: float, limits: PressureThresholds) -> PressureVerdict:
    """The state in words."""
    if not state.entered:
        return PressureVerdict(True)
    if state.calm_since is None:
        return PressureVerdict(False, state.why)
    left = limits.cooldown - (now - state.calm_since)
    return PressureVerdict(False, f"calm, {left:.0f} s of cooldown left after: {state.why}")


def _alarms(sample: PressureSample, limits: PressureThresholds) -> list[str]:
    found = []
    if sample.psi_some is not None and sample.psi_some >= limits.psi_enter:
        found.append(f"memory pressure {sample.psi_some:.1f} % (enters at {limits.psi_enter:g} %)")
    if sample.swap_in is not None and sample.swap_in >= limits.swap_in_enter:
        found.append(f"swap-in {sample.swap_in / 2**20:.1f} MiB/s (enters at {limits.swap_in_enter / 2**20:g})")
    if sample.available <= limits.available_enter:
        found.append(f"available {sample.available:.1f} % of the pool (enters at {limits.available_enter:g} %)")
    return found


def _calm(sample: PressureSample, limits: PressureThresholds) -> bool:
    return (
        (sample.psi_some is None or sample.psi_some <= limits.psi_exit)
        and (sample.swap_in is None or sample.swap_in <= limits.swap_in_exit)
        and sample.available >= limits.available_exit
    )
