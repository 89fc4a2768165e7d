"""CPU time and memory of processes and all that they started, from /proc."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from memhint.kernel.root import PAGE_SIZE

_TICKS = os.sysconf("SC_CLK_TCK")


def tree(pids: Iterable[int]) -> set[int]:
    """These processes and all below them."""
    children: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*"):
        fields = _stat(int(path.name))
        if fields is not None:
            children.setdefault(int(fields[1]), []).append(int(path.name))
    found: set[int] = set()
    left = list(pids)
    while left:
        one = left.pop()
        if one not in found:
            found.add(one)
            left += children.get(one, [])
    return found


def cpu_of(pids: Iterable[int]) -> float:
    """Seconds of CPU that these and all below them took so far, those that have ended below them included."""
    total = 0
    for one in tree(pids):
        fields = _stat(one)
        if fields is not None:
            total += sum(int(fields[place]) for place in (11, 12, 13, 14))
    return total / _TICKS


def resident_of(pids: Iterable[int]) -> int:
    """Bytes that these and all below them have in memory of their own."""
    total = 0
    for one in tree(pids):
        try:
            _, resident, shared, *_ = Path(f"/proc/{one}/statm").read_text().split()
        except OSError:
            continue
        total += (int(resident) - int(shared)) * PAGE_SIZE
    return total


def _stat(pid: int) -> list[str] | None:
    """The fields of /proc/PID/stat after the name, the state first."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
