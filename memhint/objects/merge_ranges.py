"""Ranges of addresses in a VM's process, and which of them are worth merging."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

Range = tuple[int, int]
"""First and end address in bytes, the end excluded."""


@dataclass(frozen=True, slots=True)
class RangeChoice:
    """What is to be merged of one VM. ``ranges`` None: all of it; empty: nothing."""

    ranges: tuple[Range, ...] | None
    holds: int  # candidates in them, in pages
    size: int  # bytes that they cover


def united(one: Sequence[Range], other: Sequence[Range]) -> tuple[Range, ...]:
    """All that is in either, ascending and apart."""
    found: list[Range] = []
    for start, end in sorted([*one, *other]):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        else:
            found.append((start, end))
    return tuple(found)


def without(ranges: Sequence[Range], taken: Sequence[Range]) -> tuple[Range, ...]:
    """What of the first is in none of the second. Both are ascending and apart."""
    found: list[Range] = []
    for start, end in ranges:
        at = start
        for begin, stop in taken:
            if stop <= at or begin >= end:
                continue
            if begin > at:
                found.append((at, begin))
            at = max(at, stop)
        if at < end:
            found.append((at, end))
    return tuple(found)


def within(ranges: Sequence[Range], start: int, end: int) -> tuple[Range, ...]:
    """The parts between two addresses."""
    return tuple((max(start, first), min(end, last)) for first, last in ranges if first < end and last > start)
