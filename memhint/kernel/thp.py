"""/sys/kernel/mm/transparent_hugepage: when the kernel backs memory with huge pages."""

from __future__ import annotations

from enum import Enum

from memhint.kernel.errors import InterfaceMissing, WriteRejected
from memhint.kernel.fields import chosen_word, number
from memhint.kernel.root import KernelRoot
from memhint.kernel.vmstat import read_vmstat
from memhint.objects.host import HugeActivity, Thp
from memhint.objects.units import MIB

HUGE_PAGE = 2 * MIB  # of x86-64 and of arm64 with pages of 4 KiB
_DIRECTORY = "sys/kernel/mm/transparent_hugepage"


class ThpKnob(Enum):
    """A setting of transparent huge pages that memhint may change, by its file."""

    MAX_PTES_NONE = "khugepaged/max_ptes_none"
    """Absent pages of the 512 of a huge page that khugepaged gives memory to make one."""
    SCAN_SLEEP = "khugepaged/scan_sleep_millisecs"
    """Milliseconds between two rounds of khugepaged."""
    DEFRAG = "defrag"
    """A word: what a first touch does where no huge page is free."""


def read_thp(root: KernelRoot) -> Thp:
    """The chosen words of the two switches, and what khugepaged may fill.

    :raises InterfaceMissing: when the kernel is built without transparent huge pages
    :raises KernelInterfaceError: when a switch cannot be read or makes no sense
    """
    try:
        most = int(read_setting(root, ThpKnob.MAX_PTES_NONE))
    except InterfaceMissing:
        most = None
    return Thp(enabled=_chosen(root, "enabled"), defrag=_chosen(root, "defrag"), max_ptes_none=most)


def read_setting(root: KernelRoot, setting: ThpKnob) -> str:
    """What stands there: a number, or of several words the chosen one.

    :raises InterfaceMissing: when the kernel is built without transparent huge pages, or without khugepaged
    :raises KernelInterfaceError: when it cannot be read or makes no sense
    """
    if setting is ThpKnob.DEFRAG:
        return _chosen(root, setting.value)
    return str(root.read_int(f"{_DIRECTORY}/{setting.value}"))


def write_setting(root: KernelRoot, setting: ThpKnob, value: str) -> None:
    """Write it, and read it back.

    :raises WriteRejected: when the kernel refuses the value, or another one is read back
    :raises KernelInterfaceError: when it cannot be written or read
    """
    file = f"{_DIRECTORY}/{setting.value}"
    root.write_text(file, f"{value}\n")
    found = read_setting(root, setting)
    if found != value:
        raise WriteRejected(root.path(file), f"wrote {value}, reads {found}")


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
        khugepaged_rounds=_progress(root, "full_scans"),
        khugepaged_collapsed=_progress(root, "pages_collapsed"),
        collapse_failed=counters.number("thp_collapse_alloc_failed"),
    )


def _progress(root: KernelRoot, name: str) -> int | None:
    try:
        return root.read_int(f"{_DIRECTORY}/khugepaged/{name}")
    except InterfaceMissing:
        return None


def compaction_waits(root: KernelRoot) -> tuple[int, int, int] | None:
    """How often somebody waited while the kernel made room for a large block since boot, how often in vain, and how
    often no huge page was free to make of small ones.

    For looks each second: nothing else of the file is taken apart. None where the kernel does not count them.

    :raises KernelInterfaceError: when the counters cannot be read
    """
    text = root.read_text("proc/vmstat")
    names = ("compact_stall", "compact_fail", "thp_collapse_alloc_failed")
    if any(f"\n{name} " not in text for name in names):
        return None
    stall, fail, collapse_failed = (
        number(text.partition(f"\n{name} ")[2].partition("\n")[0], root.path("proc/vmstat")) for name in names
    )
    return stall, fail, collapse_failed


def _chosen(root: KernelRoot, name: str) -> str:
    relative = f"{_DIRECTORY}/{name}"
    return chosen_word(root.read_text(relative), root.path(relative))
