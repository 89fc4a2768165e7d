"""What the QEMU of a guest holds: the guest's memory, merged or not, and QEMU's own."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

_HEAD = re.compile(r"([0-9a-f]+)-([0-9a-f]+) \S+ \S+ \S+ \S+\s*(.*)")


@dataclass(frozen=True, slots=True)
class Resident:
    """Bytes. ``merged`` is mapped from pages that others have too; ``files`` is this process's share of them.

    All but ``own_swapped``, QEMU's own that is in swap, is in memory.
    """

    guest: int
    merged: int
    own: int
    files: int
    own_swapped: int = 0


def resident(smaps: Iterable[str], memory: int) -> Resident:
    """Read /proc/PID/smaps of a QEMU.

    :param memory: bytes assigned to its guest, by which the mapping is known that holds them
    """
    guest = merged = own = files = own_swapped = 0
    inside = backed = False
    for line in smaps:
        head = _HEAD.match(line)
        if head:
            size = int(head[2], 16) - int(head[1], 16)
            backed = head[3].startswith("/")
            inside = size >= memory and not backed
            continue
        name, _, rest = line.partition(":")
        words = rest.split()
        if not words or not words[0].isdigit():
            continue
        value = int(words[0]) * 1024
        if name == "Rss" and inside:
            guest += value
        elif name == "KSM" and inside:
            merged += value
        elif name == "Anonymous" and not inside:
            own += value
            files -= value if backed else 0
        elif name == "Swap" and not inside:
            own_swapped += value
        elif name == "Pss" and backed:
            files += value
    return Resident(guest - merged, merged, own, max(0, files), own_swapped)


def resident_of(pid: int, memory: int) -> Resident:
    """The same of a process."""
    with Path(f"/proc/{pid}/smaps").open() as file:
        return resident(file, memory)
