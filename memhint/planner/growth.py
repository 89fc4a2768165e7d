"""The growth table: what became of the fleet's VMs of this age that had touched this share of their memory.

A VM's own past says nothing before it has one, and a young VM's says little. The fleet's does: of all VMs that were
once as old and had touched as much, how much had they touched in the end? A VM counts with what they came to on
average, and beside all VMs of a host is kept by how much their sum may miss it. A cell that few VMs were in says "all
of it": evidence loosens, and nothing else does.

Assumptions, and what breaks them:

- A VM is like those before it. A new image or tenant is not, and nothing says so before it grows.
- VMs grow independently of each other. Those that grow together are the storm reserve's.
- What was is like what comes: a table has to be learnt anew from the newest history.
- What a VM touched may come back as long as it lives: its own largest footprint is the least that it counts with.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

MINUTE, HOUR, DAY = 60.0, 3600.0, 86400.0
# Seconds. A VM is in the row of the largest that it has reached.
AGES = (0.0, 10 * MINUTE, HOUR, 3 * HOUR, 6 * HOUR, 12 * HOUR, DAY, 2 * DAY, 4 * DAY, 7 * DAY, 14 * DAY)
# Percent of a VM's memory. A share is in the column of the least that is not below it; finer where many VMs are.
LEVELS = (2, 4, 6, 8, 10, 13, 16, 20, 25, 30, 35, 40, 45, 50, 55, 60, 65, 70, 75, 80, 85, 90, 95, 100)
HORIZON = 7 * DAY  # seconds that must have been seen of a VM that still runs: a week has one of each day
LEAST = 10  # VMs that must have been in a cell before it says anything
DOUBT = 2  # VMs that a cell is thought to have had beside those, and that ended with all of their memory
SIGMAS = 3.0  # standard deviations of the host's sum

Cell = tuple[int, int, int]  # places of age, touched and ended


@dataclass(frozen=True, slots=True)
class GrowthTable:
    """``counts[age][touched][ended]`` VMs, by place in `AGES` and twice in `LEVELS`."""

    version: int
    counts: tuple[tuple[tuple[int, ...], ...], ...]


@dataclass(frozen=True, slots=True)
class Outlook:
    """What VMs like this one came to: ``percent`` of their memory on average.

    ``count`` of them were known, from ``age`` seconds on; 0 where too few were, and ``percent`` is 100.
    """

    percent: int
    variance: int  # percent²
    age: float
    touched: int  # percent
    count: int


def empty() -> GrowthTable:
    """A table that has seen nothing: every VM counts in full."""
    return GrowthTable(0, (((0,) * len(LEVELS),) * len(LEVELS),) * len(AGES))


def table_of(version: int, cells: Iterable[Cell]) -> GrowthTable:
    """A table of what became of VMs, as `cells_of` tells it of each."""
    counts = [[[0] * len(LEVELS) for _ in LEVELS] for _ in AGES]
    for age, touched, ended in cells:
        counts[age][touched][ended] += 1
    return GrowthTable(version, tuple(tuple(tuple(cell) for cell in row) for row in counts))


def cells_of(course: Sequence[tuple[float, int]], assigned: int, *, gone: bool) -> list[Cell]:
    """What one VM's life adds to a table: a cell for each of `AGES` that it reached.

    :param course: its age in seconds and its footprint in bytes, oldest first
    :param gone: whether it has ended. Of one that has not, only what was `HORIZON` ago is told: nobody knows yet where
        it ends
    """
    if not course:
        return []
    last, most = course[-1][0], max(use for _, use in course)
    ended = column_of(most, assigned)
    found, touched, seen = [], 0, 0
    for row, age in enumerate(AGES):
        if age > last - (0.0 if gone else HORIZON):
            break
        # The first look at or after that age counts: a VM that nobody had looked at had touched nothing yet.
        while seen < len(course) and (course[seen - 1][0] < age if seen else True):
            touched = max(touched, course[seen][1])
            seen += 1
        found.append((row, column_of(touched, assigned), ended))
    return found


def row_of(age: float) -> int:
    """The place in `AGES` of an age in seconds."""
    return max(0, bisect.bisect_right(AGES, age) - 1)


def column_of(touched: int, assigned: int) -> int:
    """The place in `LEVELS` of the largest footprint so far, in bytes, of a VM that has ``assigned``."""
    if assigned <= 0:
        return len(LEVELS) - 1
    return min(len(LEVELS) - 1, bisect.bisect_left(LEVELS, -(-100 * touched // assigned)))


def outlook(table: GrowthTable, row: int, column: int) -> Outlook:
    """What became of VMs in a cell.

    Where too few were that old, those count that had touched as much when they were younger: they had more time to
    grow.
    """
    for younger in range(row, -1, -1):
        counts = table.counts[younger][column]
        known = sum(counts)
        if known < LEAST:
            continue
        total = sum(count * level for count, level in zip(counts, LEVELS, strict=True)) + DOUBT * 100
        squares = sum(count * level**2 for count, level in zip(counts, LEVELS, strict=True)) + DOUBT * 100**2
        among = known + DOUBT
        variance = -(-(squares * among - total**2) // among**2)
        return Outlook(max(-(-total // among), LEVELS[column]), variance, AGES[younger], LEVELS[column], known)
    return Outlook(100, 0, AGES[row], LEVELS[column], 0)


def demand(one: Outlook, assigned: int) -> int:
    """Bytes that a VM of ``assigned`` counts with."""
    return min(assigned, assigned * one.percent // 100)


def deviation(outlooks: Sequence[Outlook], assigned: Sequence[int]) -> int:
    """Bytes by which the sum of a host's VMs may miss what they count with: `SIGMAS` standard deviations."""
    return of_variance(
        sum(variance_of(one.variance, most) for one, most in zip(outlooks, assigned, strict=True)), SIGMAS
    )


def variance_of(percent: int, assigned: int) -> int:
    """MiB² of one VM, from its variance in percent²: rounded up."""
    mib = -(-assigned // 2**20)
    return -(-mib * mib * percent // 10_000)


def of_variance(variance: int, sigmas: float) -> int:
    """Bytes of so many standard deviations, from MiB²."""
    return math.ceil(sigmas * math.sqrt(variance) * 2**20)


def sentence(one: Outlook) -> str:
    """Why a VM counts with so much, for people."""
    if not one.count:
        return f"too few VMs that touched {one.touched} % are known: all of its memory"
    return f"VMs {_old(one.age)} old that touched {one.touched} % ended at {one.percent} %, n = {one.count}"


def _old(seconds: float) -> str:
    for unit, name in ((2 * DAY, "days"), (HOUR, "h")):
        if seconds >= unit:
            return f"{seconds / (DAY if name == 'days' else HOUR):.0f} {name}"
    return f"{seconds / MINUTE:.0f} min"
