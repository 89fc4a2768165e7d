"""The growth table: what VMs of the fleet that were as old and used as much came to use within a week.

A VM's own past says nothing before it has one, and a young VM's says little. The fleet's does: of all looks at VMs
that were once as old and used this share of their memory, how much was the most that they used in the week after? No
VM counts with less than the average of that, so the table can only make a host promise less.

Assumptions, and what breaks them:

- A VM is like those before it. A new image or tenant is not, and nothing says so before it grows.
- VMs grow independently of each other. Those that grow together are the storm reserve's.
- The future is like the past: the table is learnt again all the time, from the newest month.
- Those that stay for a week tell of all. They fill most of a host; of those that go sooner nothing is learnt.
"""

from __future__ import annotations

import bisect
import math
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

HOUR, DAY = 3600.0, 86400.0
# Seconds. A VM is in the row of the largest that it has reached.
AGES = (0.0, HOUR, 3 * HOUR, 6 * HOUR, 12 * HOUR, DAY, 2 * DAY, 4 * DAY, 7 * DAY, 14 * DAY)
# Percent of a VM's memory. A share is in the column of the least that is not below it; finer where many VMs are.
LEVELS = (2, 4, 6, 8, 10, 13, 16, 20, 25, 30, 35, 40, 45, 50, 55, 60, 65, 70, 75, 80, 85, 90, 95, 100)
HORIZON = 7 * DAY  # seconds that a look must be ago before it tells anything: a week has one of each day
# Seconds for which points must be kept: a VM that is known for a day less is old, and its first day is known in a week.
LEAST_KEPT = HORIZON + 2 * DAY
LEAST = 10  # VMs that must have been in a cell before it says anything
PARTS = 4  # no host has more than one of so many parts of a cell: one that lies moves an average by that much at most
MOST_KNOWN = 2**31  # VMs of a cell that a table may tell of

Cell = tuple[int, int]  # places in `AGES` and in `LEVELS`
Tally = Mapping[Cell, tuple[int, int]]  # of one host: how many of its VMs were there, and the sum of their percent


@dataclass(frozen=True, slots=True)
class Outlook:
    """``percent`` of their memory is what VMs came to on average that were in the cell (``row``, ``column``).

    ``count`` of them were known. It is the next cell below, or younger, that has enough; with none nothing is said.
    """

    percent: int = 0
    row: int = 0
    column: int = 0
    count: int = 0


NOTHING = Outlook()


@dataclass(frozen=True, slots=True)
class GrowthTable:
    """``cells`` by age and by share. Who uses more is never told less: a VM that grows makes no room."""

    version: int  # the newest one holds
    cells: tuple[tuple[Outlook, ...], ...]


class GrowthError(ValueError):
    """What is no growth table of this memhint; the text says why."""


def course_of(points: Sequence[tuple[float, int, int]], kept: float) -> list[tuple[float, int, int]]:
    """A VM's course, of what is known of it: its age counts from the first point.

    :param points: seconds of any clock, its footprint and its memory in bytes, oldest first
    :param kept: seconds for which points are kept. Of a VM that has as many nobody knows how old it is: it is old
    """
    if not points:
        return []
    begin = points[0][0]
    if points[-1][0] - begin > kept - DAY:
        begin -= AGES[-1]
    return [(at - begin, use, assigned) for at, use, assigned in points]


def told_by(course: Sequence[tuple[float, int, int]]) -> dict[Cell, int]:
    """What one VM tells: percent of its memory that it came to within a week, on average, of each cell it was in.

    :param course: its age in seconds, its footprint and its memory in bytes, oldest first
    """
    sums: dict[Cell, list[int]] = {}
    ahead: deque[tuple[float, int]] = deque()  # falling shares, of which the first is the most of the week ahead
    following = 0
    for age, use, assigned in course:
        if age + HORIZON > course[-1][0]:
            break
        while following < len(course) and course[following][0] <= age + HORIZON:
            share = _percent(*course[following][1:])
            while ahead and ahead[-1][1] <= share:
                ahead.pop()
            ahead.append((course[following][0], share))
            following += 1
        while ahead[0][0] < age:
            ahead.popleft()
        sums.setdefault((row_of(age), column_of(use, assigned)), []).append(ahead[0][1])
    return {cell: -(-sum(found) // len(found)) for cell, found in sums.items()}


def tally_of(vms: Iterable[Mapping[Cell, int]]) -> dict[Cell, tuple[int, int]]:
    """What a host's VMs tell together."""
    found: dict[Cell, tuple[int, int]] = {}
    for one in vms:
        for cell, percent in one.items():
            count, total = found.get(cell, (0, 0))
            found[cell] = (count + 1, total + percent)
    return found


def table_of(version: int, hosts: Iterable[Tally]) -> GrowthTable:
    """The table that these hosts teach."""
    parts: dict[Cell, list[tuple[int, int]]] = {}
    for tally in hosts:
        for cell, part in tally.items():
            parts.setdefault(cell, []).append(part)
    rows: list[tuple[Outlook, ...]] = []
    for row in range(len(AGES)):
        found: list[Outlook] = []
        for column in range(len(LEVELS)):
            percent, count = _average(parts.get((row, column), ()))
            # Where too few were that old, those count that were younger; who uses more comes to no less.
            own = Outlook(percent, row, column, count) if count >= LEAST else (rows[-1][column] if rows else NOTHING)
            below = found[-1] if found else NOTHING
            found.append(own if own.percent >= below.percent else below)
        rows.append(tuple(found))
    return GrowthTable(version, tuple(rows))


def checked(table: GrowthTable) -> GrowthTable:
    """The table itself, once all holds that its types cannot say.

    :raises GrowthError: when it does not
    """
    if not 0 < table.version < 2**53:
        raise GrowthError("its version is out of range")
    if len(table.cells) != len(AGES) or any(len(row) != len(LEVELS) for row in table.cells):
        raise GrowthError(f"it does not have {len(AGES)} ages of {len(LEVELS)} shares")
    for place, row in enumerate(table.cells):
        before = NOTHING
        for column, one in enumerate(row):
            if not 0 <= one.percent <= 100 or not 0 <= one.count <= MOST_KNOWN:
                raise GrowthError("a percentage or a count is out of range")
            if not 0 <= one.row <= place or not 0 <= one.column <= column:
                raise GrowthError("a cell is told by one that is older or uses more")
            if one.percent and one.count < LEAST:
                raise GrowthError(f"a cell speaks for fewer than {LEAST} VMs")
            if one.percent < before.percent:
                raise GrowthError("who uses more comes to less")
            before = one
    return table


def row_of(age: float) -> int:
    """The place in `AGES` of an age in seconds."""
    return max(0, bisect.bisect_right(AGES, age) - 1)


def column_of(use: int, assigned: int) -> int:
    """The place in `LEVELS` of a footprint in bytes, of a VM that has ``assigned``."""
    return min(len(LEVELS) - 1, bisect.bisect_left(LEVELS, _percent(use, assigned)))


def outlook(table: GrowthTable, age: float, use: int, assigned: int) -> Outlook:
    """What became of VMs of this age, in seconds, that used as much."""
    return table.cells[row_of(age)][column_of(use, assigned)]


def floor(one: Outlook, assigned: int) -> int:
    """Bytes that a VM of ``assigned`` counts with at least."""
    return assigned * one.percent // 100


def sentence(one: Outlook) -> str:
    """Why a VM counts with so much, for people."""
    old = _old(AGES[one.row])
    return f"VMs {old} old that used {LEVELS[one.column]} % came to {one.percent} % within a week, n = {one.count}"


def _percent(use: int, assigned: int) -> int:
    return 100 if assigned <= 0 else min(100, -(-100 * use // assigned))


def _average(parts: Sequence[tuple[int, int]]) -> tuple[int, int]:
    """The average percentage of a cell, rounded up, and for how many VMs it speaks: of no host for too many."""
    most = _most([count for count, _ in parts])
    weights = [min(count, most) for count, _ in parts]
    known = sum(weights)
    if not known:
        return 0, 0
    total = sum(weight * part / count for weight, (count, part) in zip(weights, parts, strict=True))
    return math.ceil(total / known - 1e-9), int(known)


def _most(counts: Sequence[int]) -> float:
    """The most VMs that one host may speak for, so that it has no more than its part of all that count."""
    largest, rest = sorted(counts, reverse=True), sum(counts)
    for above in range(PARTS):
        # The hosts before this one speak for equal parts, and the others for what is left of them.
        most = rest / (PARTS - above)
        if above == len(largest) or largest[above] <= most:
            return most
        rest -= largest[above]
    return 0.0


def _old(seconds: float) -> str:
    if seconds >= 2 * DAY:
        return f"{seconds / DAY:.0f} days"
    return f"{seconds / HOUR:.0f} h" if seconds else f"less than {AGES[1] / HOUR:.0f} h"
