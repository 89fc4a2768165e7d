"""What the kernel counted until now, and the rates between two looks at it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from memhint.objects.domain import DomainObservation
from memhint.objects.host import HostObservation
from memhint.planner.nodes import scarcest
from memhint.planner.page_cache import available
from memhint.planner.pressure import PressureSample, Waits


@dataclass(frozen=True, slots=True)
class Counters:
    """Bytes swapped in and refaulted, on the host and in the VMs' cgroup; None where the kernel does not count them."""

    swapped_in: int | None = None
    refaulted: int | None = None
    vms: str | None = None  # which cgroup: the figures of another one are no successors of these
    vms_swapped_in: int | None = None
    vms_refaulted: int | None = None


def counters_of(host: HostObservation) -> Counters:
    """The counters as they stand."""
    swap, vms = host.swap, host.vms
    return Counters(
        swap.swapped_in if swap else None,
        swap.refaulted if swap else None,
        vms.path if vms else None,
        vms.swapped_in if vms else None,
        vms.refaulted if vms else None,
    )


def sample_of(
    host: HostObservation,
    pool: int,
    domains: Sequence[DomainObservation],
    before: Counters,
    elapsed: float | None,
) -> PressureSample:
    """The signals of one cycle.

    :param elapsed: seconds since ``before`` was counted; None where nothing was
    """
    now = counters_of(host)
    swap_in = _rate(before.swapped_in, now.swapped_in, elapsed)
    refault = _rate(before.refaulted, now.refaulted, elapsed)
    pressure, vms = host.pressure, Waits()
    if host.vms is not None:
        same = elapsed if now.vms == before.vms else None
        own = host.vms.pressure
        vms = Waits(
            own.some_avg10 if own else None,
            _rate(before.vms_swapped_in, now.vms_swapped_in, same),
            _rate(before.vms_refaulted, now.vms_refaulted, same),
        )
    left = 100.0 * available(host, domains) / pool if pool else 0.0
    psi = pressure.some_avg10 if pressure else None
    return PressureSample(psi, swap_in, left, refault, vms, scarcest(host, domains))


def _rate(before: int | None, now: int | None, elapsed: float | None) -> float | None:
    if before is None or now is None or not elapsed or elapsed < 0:
        return None
    return max(0, now - before) / elapsed
