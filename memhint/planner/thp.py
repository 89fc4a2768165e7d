"""Which VMs get huge pages again: those whose policy says so, and those that memhint took small pieces from, once they
work again. By QEMU process.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from memhint.objects.domain import DomainObservation, DomainState
from memhint.objects.pieces import HUGE_ORDER
from memhint.objects.policy import Mode, Policy
from memhint.objects.relief import Relief
from memhint.objects.units import MIB


@dataclass(frozen=True, slots=True)
class CollapseSettings:
    """How much is collapsed, and for how long after something split a VM's huge pages."""

    most: int = 256 * MIB  # bytes of one pass over one VM
    window: float = 600.0  # seconds


def taken_from(relief: Relief, merging: Collection[str]) -> frozenset[str]:
    """UUIDs of the VMs whose huge pages are split now, by whatever takes less than one of them at a time."""
    finer = (uuid for uuid, one in relief.tuning.items() if one.order is not None and one.order < HUGE_ORDER)
    return frozenset((*finer, *relief.recycler, *relief.balloon, *relief.swap_out, *merging))


def next_split(
    before: Mapping[str, float],
    domains: Iterable[DomainObservation],
    taken: Collection[str],
    idle: frozenset[str],
    elapsed: float | None,
    settings: CollapseSettings,
) -> dict[str, float]:
    """The processes from which something took small pieces, and for how many seconds they have worked since.

    While a VM is idle nothing is owed to it: the time begins when it wakes.
    """
    found = {}
    for one in domains:
        if one.process is None:
            continue
        name = one.process.instance
        if one.uuid in taken or (name in before and name in idle):
            found[name] = 0.0
        elif name in before and before[name] + (elapsed or 0.0) <= settings.window:
            found[name] = before[name] + (elapsed or 0.0)
    return found


def collapses(
    domains: Iterable[DomainObservation],
    policies: Mapping[str, Policy],
    split: Mapping[str, float],
    taken: Collection[str],
    idle: frozenset[str],
    settings: CollapseSettings,
    *,
    calm: bool,
) -> dict[str, int]:
    """Bytes of huge pages to make of each VM from which nothing takes pieces now.

    Those whose policy says ``auto`` have to work: an idle one gains nothing. What works within the memory it has counts
    as idle, so ``on`` does not ask.

    :param calm: whether no rung is entered; else the host needs what a collapse would fill
    """
    if not calm:
        return {}
    return {
        one.uuid: settings.most
        for one in domains
        if one.state is DomainState.RUNNING
        and one.process is not None
        and one.uuid not in taken
        and (
            policies[one.uuid].thp is Mode.ON
            or (
                policies[one.uuid].thp is Mode.AUTO
                and one.process.instance in split
                and one.process.instance not in idle
            )
        )
    }
