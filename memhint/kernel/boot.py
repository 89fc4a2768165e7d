"""Which boot of the host this is."""

from __future__ import annotations

from memhint.kernel.root import KernelRoot


def host_boot(root: KernelRoot) -> str:
    """A name for this boot of the host.

    :raises KernelInterfaceError: when it cannot be read
    """
    return root.read_text("proc/sys/kernel/random/boot_id").strip()
