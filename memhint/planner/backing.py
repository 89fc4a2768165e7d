"""How much disk swap could hold VMs' memory, if all of them claimed all they were given."""

from __future__ import annotations

from collections.abc import Iterable

from memhint.objects.domain import DomainObservation
from memhint.objects.host import HostObservation


def swap_backing(host: HostObservation, domains: Iterable[DomainObservation]) -> int:
    """What is free of the disk swap, and what the VMs' own memory fills of it. Bytes.

    A VM's swapped memory is part of its U, U is no more than A, and ΣA is what is to be backed: the place that it lies
    in backs it. What others have there is theirs, as their resident memory is, which `other` counts. Nor is there more
    than the VMs' cgroup may have: where its limit is 0 the kernel swaps out nothing of theirs.

    :param domains: those within the sums only
    """
    memory = host.memory
    backed = min(memory.swap_total, memory.free_swap + _own(host, domains))
    most = host.vms.swap_most if host.vms is not None else None
    return backed if most is None else min(backed, most)


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
