"""Strict, bounded parsers of the texts of a guest's /proc/meminfo and /proc/buddyinfo."""

from __future__ import annotations

import re
from dataclasses import dataclass

from memhint.guest.errors import GuestAnswerMalformed
from memhint.objects.units import KIB

_MEMINFO_LINES = 256
_MEMINFO_LINE = re.compile(r"([A-Za-z0-9_()]{1,64}):[ \t]+([0-9]{1,16}) kB[ \t]*")
_BUDDY_LINES = 1024
_BUDDY_LINE = re.compile(r"Node +[0-9]{1,5}, +zone +[A-Za-z0-9]{1,16} +([0-9]{1,12}(?: +[0-9]{1,12})*) *")
_BUDDY_LINE_LENGTH = 512
_ORDERS_MAX = 16


@dataclass(frozen=True, slots=True)
class MemInfo:
    """What memhint takes from /proc/meminfo. Bytes; None where the kernel does not tell."""

    total: int
    free: int
    available: int | None = None
    cached: int | None = None  # file pages that can be dropped: Cached and Buffers without Shmem
    cold: int | None = None  # file pages that were not used recently
    pressure: float | None = None  # percent of the last ten seconds that something waited for memory


def parse_meminfo(text: str) -> MemInfo:
    """The numbers of /proc/meminfo, not yet clamped to anything.

    :raises GuestAnswerMalformed: too long, a name twice, or without MemTotal and MemFree
    """
    lines = text.splitlines()
    if len(lines) > _MEMINFO_LINES:
        raise GuestAnswerMalformed(f"more than {_MEMINFO_LINES} lines", "meminfo")
    found: dict[str, int] = {}
    for line in lines:
        # Lines of other shapes (HugePages_Total has no unit) are nothing this needs.
        match = _MEMINFO_LINE.fullmatch(line)
        if match is None:
            continue
        name, kib = match.groups()
        if name in found:
            raise GuestAnswerMalformed("there twice", f"meminfo.{name}")
        found[name] = int(kib) * KIB
    for name in ("MemTotal", "MemFree"):
        if name not in found:
            raise GuestAnswerMalformed("missing", f"meminfo.{name}")
    cached = None
    if "Cached" in found:
        # tmpfs and shared memory count as Cached, and only swap could free them.
        cached = max(0, found["Cached"] + found.get("Buffers", 0) - found.get("Shmem", 0))
    return MemInfo(found["MemTotal"], found["MemFree"], found.get("MemAvailable"), cached, found.get("Inactive(file)"))


def parse_buddyinfo(text: str, page_size: int = 4 * KIB) -> tuple[int, ...]:
    """Bytes free in blocks of order 0, 1, 2, … over all nodes and zones, not yet clamped to anything.

    :raises GuestAnswerMalformed: no or too many lines, a line of another shape, or rows of different lengths
    """
    lines = text.splitlines()
    if not 1 <= len(lines) <= _BUDDY_LINES:
        raise GuestAnswerMalformed(f"not 1 to {_BUDDY_LINES} lines", "buddyinfo")
    rows = [_buddy_row(line, number) for number, line in enumerate(lines)]
    if len({len(row) for row in rows}) != 1:
        raise GuestAnswerMalformed("zones with different numbers of orders", "buddyinfo")
    return tuple((sum(blocks) << order) * page_size for order, blocks in enumerate(zip(*rows, strict=True)))


def _buddy_row(line: str, number: int) -> tuple[int, ...]:
    path = f"buddyinfo[{number}]"
    match = _BUDDY_LINE.fullmatch(line) if len(line) <= _BUDDY_LINE_LENGTH else None
    if match is None:
        raise GuestAnswerMalformed("not a line of a zone", path)
    row = tuple(int(count) for count in match.group(1).split())
    if len(row) > _ORDERS_MAX:
        raise GuestAnswerMalformed(f"more than {_ORDERS_MAX} orders", path)
    return row
