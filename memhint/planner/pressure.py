"""The signals of a host that runs short, held against one rung's limits.

Pressure, swap-in and refaults say that somebody waits for memory, and not that the host has none: a job in a cgroup
with a limit of its own waits for itself alone. So while memory is plenty only what the VMs' own cgroup suffers counts,
where the kernel says that, and the rungs that take something from VMs are not entered at all.
"""

from __future__ import annotations

from dataclasses import dataclass

from memhint.planner.settings import PressureThresholds

HOST, VMS = "", " of the VMs' cgroup"


@dataclass(frozen=True, slots=True)
class Waits:
    """Who waits for memory, of the host or of one cgroup; None where the kernel does not say."""

    psi_some: float | None = None  # percent
    swap_in: float | None = None  # bytes per second
    refault: float | None = None  # bytes per second that were dropped and are read again


@dataclass(frozen=True, slots=True)
class PressureSample:
    """The signals of one cycle; None where the host does not have one."""

    psi_some: float | None  # percent
    swap_in: float | None  # bytes per second
    available: float  # percent of the pool
    refault: float | None = None  # bytes per second that were dropped and are read again
    vms: Waits = Waits()  # what of the three above is the VMs' own
    node: float | None = None  # percent that the scarcest node has left that VMs are bound to

    @property
    def left(self) -> float:
        """Percent that is left where it is scarcest: what says whether memory is scarce."""
        return self.available if self.node is None else min(self.available, self.node)


def alarms(sample: PressureSample, limits: PressureThresholds) -> list[str]:
    """The signals that enter the rung, in words; empty where none does."""
    found = []
    scarce = sample.left <= limits.scarce_enter
    if scarce or not limits.needs_scarcity:
        psi, of_psi = _counted(sample.psi_some, sample.vms.psi_some, scarce)
        swap_in, of_swap = _counted(sample.swap_in, sample.vms.swap_in, scarce)
        refault, of_refault = _counted(sample.refault, sample.vms.refault, scarce)
        if psi is not None and psi >= limits.psi_enter:
            found.append(f"memory pressure{of_psi} {psi:.1f} % (enters at {limits.psi_enter:g} %)")
        if swap_in is not None and swap_in >= limits.swap_in_enter:
            found.append(f"swap-in{of_swap} {swap_in / 2**20:.1f} MiB/s (enters at {limits.swap_in_enter / 2**20:g})")
        if refault is not None and refault >= limits.refault_enter:
            found.append(
                f"refaults{of_refault} {refault / 2**20:.1f} MiB/s (enters at {limits.refault_enter / 2**20:g})"
            )
    if sample.available <= limits.available_enter:
        found.append(f"available {sample.available:.1f} % of the pool (enters at {limits.available_enter:g} %)")
    return found


def calm(sample: PressureSample, limits: PressureThresholds) -> bool:
    """Whether every signal that counts lies at or below the rung's exit."""
    if sample.available < limits.available_exit:
        return False
    plenty = sample.left >= limits.scarce_exit
    if plenty and limits.needs_scarcity:
        return True
    psi, _ = _counted(sample.psi_some, sample.vms.psi_some, not plenty)
    swap_in, _ = _counted(sample.swap_in, sample.vms.swap_in, not plenty)
    refault, _ = _counted(sample.refault, sample.vms.refault, not plenty)
    return (
        (psi is None or psi <= limits.psi_exit)
        and (swap_in is None or swap_in <= limits.swap_in_exit)
        and (refault is None or refault <= limits.refault_exit)
    )


def _counted(host: float | None, vms: float | None, scarce: bool) -> tuple[float | None, str]:
    """The figure that counts, and whose it is: everybody's where memory is scarce or nothing tells them apart."""
    return (host, HOST) if scarce or vms is None else (vms, VMS)
