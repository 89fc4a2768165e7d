"""/proc/vmstat: the machine's counters of virtual memory."""

from __future__ import annotations

from memhint.kernel.fields import Fields, columns
from memhint.kernel.root import KernelRoot

_PATH = "proc/vmstat"


def read_vmstat(root: KernelRoot) -> Fields:
    """The counters by name; ``number(name)`` gives pages or events, as the kernel counts that one.

    :raises KernelInterfaceError: when the file cannot be read or is empty
    """
    return columns(root.read_text(_PATH), root.path(_PATH))


def oom_kills(root: KernelRoot) -> int:
    """Processes killed for want of memory since boot, in every cgroup.

    :raises KernelInterfaceError: InterfaceMissing before Linux 4.13, others when it cannot be read
    """
    return read_vmstat(root).number("oom_kill")
