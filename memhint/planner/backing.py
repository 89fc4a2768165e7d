"""How much disk swap could hold VMs' memory, if all of them claimed all they were given."""

from __future__ import annotations

from collections.abc import Iterable

from memhint.objects.domain import DomainObservation
from memhint.objects.exclusion import Mechanism
from memhint.objects.host import HostObservation, SwapLimit
from memhint.objects.plan import Demand
from memhint.planner.exclusions import forbidden


def swap_backing(
    host: HostObservation, domains: Iterable[DomainObservation], demands: Iterable[Demand], before: int | None = None
) -> int:
    """What is free of the disk swap, and what the VMs' own memory fills of it. Bytes.

    A VM's swapped memory is part of its U, U is no more than A, and ΣA is what is to be backed: the place that it lies
    in backs it. What others have there is theirs, as their resident memory is, which `other` counts. Nor is there more
    than the VMs' cgroup may have, or their own cgroups together: where the limit is 0 the kernel swaps out nothing of
    theirs.

    What goes to zswap has its place on the disk, but takes memory: as much as zswap may still take backs nothing.

    :param domains: those within the sums only
    :param demands: theirs
    :param before: what ``swap_most`` said last
    """
    memory = host.memory
    there = min(memory.swap_total, memory.free_swap + _own(host, domains))
    bounds = (there, swap_most(host, before), _allowed(host.swap_limits, demands))
    return max(0, min(most for most in bounds if most is not None) - memory.zswap_room)


def swap_most(host: HostObservation, before: int | None) -> int | None:
    """Bytes of swap that the VMs' cgroup may have, as known last while it cannot be told; None where nothing limits it.

    A limit does not go away because one QEMU could not be read.
    """
    if host.unread("vms"):
        return before
    return host.vms.swap_most if host.vms is not None else None


def _allowed(limits: Iterable[SwapLimit], demands: Iterable[Demand]) -> int | None:
    """Bytes of these VMs' memory that may go to swap by their own cgroups' limits; None where there are none.

    Of a VM that none holds it is all of its memory. What may not be swapped is in memory, and counts there in full.
    """
    # The smaller first: what its VMs may have is counted before a larger one that holds them all takes from it.
    ordered = sorted(limits, key=lambda limit: len(limit.vms))
    if not ordered:
        return None
    found = {one.uuid: 0 if forbidden(one.excluded, Mechanism.SWAP) else one.assigned for one in demands}
    for limit in ordered:
        left = limit.most
        for uuid in limit.vms:
            if uuid in found:
                found[uuid] = min(found[uuid], left)
                left -= found[uuid]
    return sum(found.values())


def _own(host: HostObservation, domains: Iterable[DomainObservation]) -> int:
    """Bytes of disk swap that surely hold these VMs' memory, and are not counted twice."""
    swapped = sum(one.process.swap for one in domains if one.process)
    own = max(0, swapped - host.memory.swap_in_memory)  # a process does not tell where: zram first, by its priority
    if host.vms is not None and host.vms.swap is not None:
        return min(own, max(0, host.vms.swap - host.memory.swap_in_memory))
    # A page that KSM merged takes its place once, and each of its VMs has it among its own. Which were merged is
    # forgotten once they are swapped, and nothing here counts them once.
    return 0 if _may_have_merged(host) else own


def _may_have_merged(host: HostObservation) -> bool:
    if host.ksm is None:
        return host.unread("ksm")
    return bool(host.ksm.run or host.ksm.full_scans or host.ksm.pages_shared)
