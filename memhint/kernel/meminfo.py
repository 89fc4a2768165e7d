"""/proc/meminfo: the memory of the whole machine."""

from __future__ import annotations

from memhint.kernel.errors import InterfaceMissing
from memhint.kernel.fields import Fields, colons
from memhint.kernel.root import KernelRoot
from memhint.kernel.swap import DiskSwap, disk_swap
from memhint.kernel.zswap import zswap_room
from memhint.objects.host import HostMemory, Scope

_PATH = "proc/meminfo"


def read_meminfo(root: KernelRoot) -> Fields:
    """The lines of /proc/meminfo; ``kib(name)`` gives bytes.

    :raises KernelInterfaceError: when the file cannot be read or is empty
    """
    return colons(root.read_text(_PATH), root.path(_PATH))


def in_huge_pages(fields: Fields) -> int | None:
    """Bytes that all pools of huge pages hold; None where the kernel does not say (before Linux 4.19)."""
    return fields.kib("Hugetlb") if "Hugetlb" in fields.values else None


def machine_memory(root: KernelRoot, fields: Fields | None = None) -> HostMemory:
    """The memory of the machine in bytes, with the swap that lies on a disk.

    :param fields: of /proc/meminfo, by who has read it
    :raises KernelInterfaceError: when a part is missing (MemAvailable before Linux 3.14) or makes no sense
    """
    fields = read_meminfo(root) if fields is None else fields
    try:
        swap = disk_swap(root)
    except InterfaceMissing:
        # meminfo was there, so /proc is: this kernel is built without swap, and none is a fact
        swap = DiskSwap(0, 0)
    total = fields.kib("MemTotal")
    available = fields.kib("MemAvailable")
    # the two are counted apart, and memory hotplug can come between
    free = swap.total - swap.used
    zswap = zswap_room(root, fields) if swap.total else 0
    return HostMemory(Scope.MACHINE, total, min(available, total), swap.total, swap.used, free, swap.in_memory, zswap)
