"""The smallest cgroup that holds every VM's QEMU: what the kernel counts there is the VMs' alone."""

from __future__ import annotations

from collections.abc import Collection
from posixpath import commonpath

from memhint.kernel.errors import InterfaceMissing
from memhint.kernel.memcg import cgroup_faults, cgroup_swap_most, cgroup_swapped
from memhint.kernel.process_cgroup import Home
from memhint.kernel.psi import read_pressure
from memhint.kernel.root import PAGE_SIZE, KernelRoot
from memhint.objects.host import Pressure, VmsCgroup


def common_cgroup(homes: Collection[Home]) -> str | None:
    """The directory of the smallest cgroup that holds all of these.

    None where there are none, or nothing but the hierarchy's root holds them all.
    """
    if len({(one.version, one.mount) for one in homes}) != 1:
        return None
    mount = next(iter(homes)).mount
    path = commonpath([one.path for one in homes])
    return path if len(path) > len(mount) else None


def read_vms_cgroup(root: KernelRoot, path: str, page_size: int = PAGE_SIZE) -> VmsCgroup:
    """What this kernel counts of it.

    :raises KernelInterfaceError: when the cgroup is gone, or cannot be read or makes no sense
    """
    swapped_in, refaulted = cgroup_faults(root, path, page_size)
    swap = cgroup_swapped(root, path)
    return VmsCgroup(
        path,
        swap=swap,
        pressure=read_vms_pressure(root, path),
        swapped_in=swapped_in,
        refaulted=refaulted,
        swap_most=cgroup_swap_most(root, path, swap or 0),
    )


def read_vms_pressure(root: KernelRoot, path: str) -> Pressure | None:
    """The pressure on the tasks of this cgroup; None where the kernel has none by cgroup, as with version 1.

    :raises KernelInterfaceError: when it cannot be read or makes no sense
    """
    try:
        return read_pressure(root, path)
    except InterfaceMissing:
        return None
