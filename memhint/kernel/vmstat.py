"""/proc/vmstat: the machine's counters of virtual memory."""

from __future__ import annotations

from memhint.kernel.errors import KernelInterfaceError
from memhint.kernel.fields import Fields, columns
from memhint.kernel.root import KernelRoot

_PATH = "proc/vmstat"


def read_vmstat(root: KernelRoot) -> Fields:
    """The counters by name; ``number(name)`` gives pages or events, as the kernel counts that one.

    :raises KernelInterfaceError: when the file cannot be read or is empty
    """
    return columns(root.read_text(_PATH), root.path(_PATH))


def swapped(counters: Fields, way: str, prefix: str = "") -> int:
    """Pages that went to swap (``out``) or came back (``in``). By way of zswap too: Linux counts that apart since 5.19.

    :raises KernelInterfaceError: when a counter is no number, or the kernel does not count
    """
    zswap = f"zswp{way}"
    return counters.number(f"{prefix}pswp{way}") + (counters.number(zswap) if zswap in counters.values else 0)


def refaulted(counters: Fields, page_size: int, prefix: str = "") -> int | None:
    """Bytes that were reclaimed and wanted again while the kernel still remembered them (``workingset_refault_*``).

    None where the kernel does not count them.

    :raises KernelInterfaceError: when a counter is no number
    """
    names = [f"{prefix}workingset_refault{kind}" for kind in ("_anon", "_file", "")]  # one name before Linux 5.9
    found = [counters.number(name) for name in names if name in counters.values]
    return sum(found) * page_size if found else None


def cow_breaks(root: KernelRoot) -> int | None:
    """Pages merged by KSM that were written to since boot, and pages that were separated for another reason.

    None where the kernel does not count them (before Linux 5.19), or the file makes no sense.
    """
    try:
        counters = read_vmstat(root)
        return counters.number("cow_ksm") if "cow_ksm" in counters.values else None
    except KernelInterfaceError:
        return None  # the gaps of swap and of OOM kills tell of the file


def oom_kills(root: KernelRoot) -> int:
    """Processes killed for want of memory since boot, in every cgroup.

    :raises KernelInterfaceError: InterfaceMissing before Linux 4.13, others when it cannot be read
    """
    return read_vmstat(root).number("oom_kill")
