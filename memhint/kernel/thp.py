"""/sys/kernel/mm/transparent_hugepage: when the kernel backs memory with huge pages."""

from __future__ import annotations

from memhint.kernel.errors import InterfaceMissing, WriteRejected
from memhint.kernel.fields import chosen_word
from memhint.kernel.root import KernelRoot
from memhint.kernel.vmstat import read_vmstat
from memhint.objects.host import HugeActivity, Thp
from memhint.objects.units import MIB

HUGE_PAGE = 2 * MIB  # of x86-64 and of arm64 with pages of 4 KiB
_DIRECTORY = "sys/kernel/mm/transparent_hugepage"
_MAX_PTES_NONE = f"{_DIRECTORY}/khugepaged/max_ptes_none"
_SCAN_SLEEP = f"{_DIRECTORY}/khugepaged/scan_sleep_millisecs"
_DEFRAG = f"{_DIRECTORY}/defrag"


def read_thp(root: KernelRoot) -> Thp:
    """The chosen words of the two switches, and what khugepaged may fill.

    :raises InterfaceMissing: when the kernel is built without transparent huge pages
    :raises KernelInterfaceError: when a switch cannot be read or makes no sense
    """
    try:
        most = read_max_ptes_none(root)
    except InterfaceMissing:
        most = None
    return Thp(enabled=_chosen(root, "enabled"), defrag=_chosen(root, "defrag"), max_ptes_none=most)


def read_max_ptes_none(root: KernelRoot) -> int:
    """Absent pages of the 512 of a huge page that khugepaged gives memory to make one.

    :raises InterfaceMissing: when the kernel has no khugepaged
    :raises KernelInterfaceError: when it cannot be read or makes no sense
    """
    return root.read_int(_MAX_PTES_NONE)


def write_max_ptes_none(root: KernelRoot, value: int) -> None:
    """Set it, and read it back.

    :raises WriteRejected: when the kernel refuses the value, or another one is read back
    :raises KernelInterfaceError: when it cannot be written or read
    """
    root.write_text(_MAX_PTES_NONE, f"{value}\n")
    _as_written(root, _MAX_PTES_NONE, value, read_max_ptes_none(root))


def read_defrag(root: KernelRoot) -> str:
    """What a first touch does where no huge page is free: the chosen word of `defrag`.

    :raises InterfaceMissing: when the kernel is built without transparent huge pages
    :raises KernelInterfaceError: when it cannot be read or makes no sense
    """
    return _chosen(root, "defrag")


def write_defrag(root: KernelRoot, word: str) -> None:
    """Choose a word, and read it back.

    :raises WriteRejected: when the kernel refuses the word, or another one is read back
    :raises KernelInterfaceError: when it cannot be written or read
    """
    root.write_text(_DEFRAG, f"{word}\n")
    _as_written(root, _DEFRAG, word, read_defrag(root))


def read_scan_sleep(root: KernelRoot) -> int:
    """Milliseconds between two rounds of khugepaged.

    :raises InterfaceMissing: when the kernel has no khugepaged
    :raises KernelInterfaceError: when it cannot be read or makes no sense
    """
    return root.read_int(_SCAN_SLEEP)


def write_scan_sleep(root: KernelRoot, value: int) -> None:
    """Set it, and read it back.

    :raises WriteRejected: when the kernel refuses the value, or another one is read back
    :raises KernelInterfaceError: when it cannot be written or read
    """
    root.write_text(_SCAN_SLEEP, f"{value}\n")
    _as_written(root, _SCAN_SLEEP, value, read_scan_sleep(root))


def huge_activity(root: KernelRoot) -> HugeActivity:
    """What the kernel counts of huge pages, since boot.

    :raises InterfaceMissing: when the kernel is built without transparent huge pages, or without compaction
    :raises KernelInterfaceError: when a counter cannot be read or makes no sense
    """
    counters = read_vmstat(root)
    return HugeActivity(
        fault_alloc=counters.number("thp_fault_alloc"),
        fault_fallback=counters.number("thp_fault_fallback"),
        compact_stall=counters.number("compact_stall"),
        compact_fail=counters.number("compact_fail"),
        split=counters.number("thp_split_page"),
        collapsed=counters.number("thp_collapse_alloc"),
    )


def _as_written(root: KernelRoot, file: str, wrote: int | str, reads: int | str) -> None:
    if reads != wrote:
        raise WriteRejected(root.path(file), f"wrote {wrote}, reads {reads}")


def _chosen(root: KernelRoot, name: str) -> str:
    relative = f"{_DIRECTORY}/{name}"
    return chosen_word(root.read_text(relative), root.path(relative))
