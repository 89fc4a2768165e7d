"""Runs inside a virtual host: its NUMA nodes as its kernel sees them."""

from __future__ import annotations

import ctypes
import mmap
import os
from pathlib import Path
from typing import Any

NODES = Path("/sys/devices/system/node")
TIERS = Path("/sys/devices/virtual/memory_tiering")
HUGE = 2 << 20
MADV_HUGEPAGE, MADV_NOHUGEPAGE, MADV_COLLAPSE = 14, 15, 25
LIBC = ctypes.CDLL(None, use_errno=True)


def seen() -> dict[str, Any]:
    """Nodes by tier, the fastest first; processors and bytes by node."""
    tiers = sorted(TIERS.glob("memory_tier*"), key=lambda path: int(path.name.removeprefix("memory_tier")))
    nodes = sorted(NODES.glob("node[0-9]*"))
    return {
        "tiers": [[int(word) for word in (tier / "nodelist").read_text().split(",") if word.strip()] for tier in tiers],
        "cpus": [(node / "cpulist").read_text().strip() for node in nodes],
        "memory": [_total(node / "meminfo") for node in nodes],
    }


def collapsed(touched_by: int, by: int) -> dict[str, int]:
    """Pages by node of a block of 2 MiB whose pages one processor touched, before and after another one has a huge
    page made of it, and the bytes of it that are huge then.
    """
    memory = mmap.mmap(-1, 2 * HUGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    start = -(-ctypes.addressof(ctypes.c_char.from_buffer(memory)) // HUGE) * HUGE
    _advise(start, MADV_NOHUGEPAGE)
    os.sched_setaffinity(0, {touched_by})
    for at in range(start, start + HUGE, mmap.PAGESIZE):
        ctypes.memset(at, 1, 1)
    found = {f"before_{node}": pages for node, pages in _placed(start).items()}
    os.sched_setaffinity(0, {by})
    _advise(start, MADV_HUGEPAGE)
    _advise(start, MADV_COLLAPSE)
    return {**found, **{f"after_{node}": pages for node, pages in _placed(start).items()}, "huge": _huge(start)}


def _advise(start: int, advice: int) -> None:
    if LIBC.madvise(ctypes.c_void_p(start), ctypes.c_size_t(HUGE), advice):
        raise OSError(ctypes.get_errno(), f"madvise {advice}")


def _placed(start: int) -> dict[int, int]:
    """Pages by node of the mapping that holds the address."""
    best: list[str] = []
    for line in Path("/proc/self/numa_maps").read_text().splitlines():
        words = line.split()
        if int(words[0], 16) <= start:
            best = words
    return {int(word[1:].split("=")[0]): int(word.split("=")[1]) for word in best if word[:2] in ("N0", "N1")}


def _huge(start: int) -> int:
    inside = False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        first, _, _ = line.partition(" ")
        if "-" in first and not first.endswith(":"):
            begin, _, end = first.partition("-")
            inside = int(begin, 16) <= start < int(end, 16)
        elif inside and first == "AnonHugePages:":
            return int(line.split()[1]) * 1024
    return 0


def _total(meminfo: Path) -> int:
    (line,) = (line for line in meminfo.read_text().splitlines() if "MemTotal:" in line)
    return int(line.split()[3]) * 1024
