"""/proc/buddyinfo: the free memory of each node, by the size of the blocks that it lies in."""

from __future__ import annotations

import re

from memhint.kernel.errors import InterfaceMalformed
from memhint.kernel.fields import number
from memhint.kernel.root import PAGE_SIZE, KernelRoot

_PATH = "proc/buddyinfo"
_ZONE = re.compile(r"Node (\d{1,9}), +zone +(\S{1,32}) +((?:\d{1,20} *)+)", re.ASCII)


def free_in_blocks(root: KernelRoot, least: int, page_size: int = PAGE_SIZE) -> dict[int, int]:
    """Bytes by node that are free in blocks of at least ``least`` bytes; a node has 0 where its memory is in pieces.

    :raises InterfaceMissing: when there is no buddyinfo
    :raises KernelInterfaceError: when it cannot be read or makes no sense
    """
    path = root.path(_PATH)
    found: dict[int, int] = {}
    for line in root.read_text(_PATH).split("\n"):
        if not line:
            continue
        zone = _ZONE.fullmatch(line.rstrip(" "))
        if zone is None:
            raise InterfaceMalformed(path, f"{line[:80]!r} is no zone")
        node, counts = number(zone[1], path), [number(word, path) for word in zone[3].split()]
        if len(counts) > 32:  # the kernel has 11 orders, or 14 at the most
            raise InterfaceMalformed(path, f"{len(counts)} orders")
        sizes = (page_size << order for order in range(len(counts)))
        blocks = zip(sizes, counts, strict=True)
        found[node] = found.get(node, 0) + sum(size * count for size, count in blocks if size >= least)
    return found
