"""debugfs kvm/PID-FD: in which sizes KVM has mapped a guest's memory for its processors."""

from __future__ import annotations

from memhint.kernel.errors import InterfaceMissing
from memhint.kernel.root import PAGE_SIZE, KernelRoot
from memhint.objects.domain import GuestMappings
from memhint.objects.units import GIB, MIB

_DIRECTORY = "sys/kernel/debug/kvm"


def guest_mappings(root: KernelRoot, pid: int, page_size: int = PAGE_SIZE) -> GuestMappings:
    """Bytes of one QEMU's guest by the size of the entries that map them.

    What the processor really walks: a huge page of the host may be mapped in small pieces, while its memory is logged
    for migration for one.

    :raises InterfaceMissing: without KVM or debugfs, for a QEMU that has no VM, and before Linux 5.13
    :raises KernelInterfaceError: when a counter cannot be read or makes no sense
    """
    prefix = f"{pid}-"
    for name in root.names(_DIRECTORY):
        if name.startswith(prefix):
            small, huge, giant = (root.read_int(f"{_DIRECTORY}/{name}/pages_{size}") for size in ("4k", "2m", "1g"))
            return GuestMappings(small * page_size, huge * 2 * MIB, giant * GIB)
    raise InterfaceMissing(root.path(_DIRECTORY), f"no VM of process {pid}")
