"""Figures of counted guests, without any guest: what was printed, medians, spread, differences, verdicts, tables."""

from __future__ import annotations

import bisect
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

PAGE = 4096
KERNEL_HALF = 1 << 47
"""Addresses from here on are the kernel's."""


@dataclass(frozen=True, slots=True)
class Symbols:
    """Functions of a kernel by address, ascending."""

    addresses: tuple[int, ...]
    names: tuple[str, ...]

    def name(self, address: int) -> str:
        """The function that an address is in; programs are not told apart."""
        if address < KERNEL_HALF:
            return "(program)"
        index = bisect.bisect_right(self.addresses, address) - 1
        return self.names[index] if index >= 0 else "(unknown)"


def symbols(text: str) -> Symbols:
    """Read System.map. Raises ValueError for a line that is not of one."""
    found = []
    for line in text.splitlines():
        address, kind, name = line.split()
        if kind in "tTwW":
            found.append((int(address, 16), name))
    found.sort()
    return Symbols(tuple(one for one, _ in found), tuple(name for _, name in found))


@dataclass(frozen=True, slots=True)
class Window:
    """What a guest did between opening and closing a window, and what that cost.

    Instructions count a repeated string instruction once, steps count each repetition. Faults and system time are of
    QEMU's process; `resident` are its bytes when the window opened.
    """

    name: str
    operations: int
    ticks: int
    pages: int
    batches: int
    instructions: int
    steps: int
    minor_faults: int
    system_us: int
    wall_us: int
    resident: int
    functions: Mapping[str, int] = field(default_factory=dict)

    @property
    def per_operation(self) -> float:
        """Instructions per operation."""
        return self.instructions / self.operations


def windows(console: str, counted: str, kernel: Symbols) -> list[Window]:
    """The windows of one boot, from the guest's console and the plugin's file.

    Raises ValueError if the guest did not come to its end, or the two do not tell of the same windows.
    """
    lines = console.replace("\r", "").splitlines()
    if "done" not in lines:
        raise ValueError("the guest did not come to its end:\n" + "\n".join(lines[-12:]))
    told = [line.split()[1:] for line in lines if line.startswith("window ")]
    sums: list[list[int]] = []
    functions: list[dict[str, int]] = []
    for line in counted.splitlines():
        kind, *rest = line.split()
        if kind == "window":
            sums.append([int(number) for number in rest])
            functions.append({})
        elif kind == "at" and functions:
            name = kernel.name(int(rest[0], 16))
            functions[-1][name] = functions[-1].get(name, 0) + int(rest[1])
        else:
            raise ValueError(f"not a line of the plugin: {line!r}")
    if len(told) != len(sums):
        raise ValueError(f"the guest opened {len(told)} windows, the plugin saw {len(sums)}")
    found = []
    for (name, *numbers), measured, where in zip(told, sums, functions, strict=True):
        operations, ticks, pages, batches = map(int, numbers)
        instructions, steps, faults, system, wall, resident = measured
        found.append(
            Window(
                name,
                operations,
                ticks,
                pages,
                batches,
                instructions,
                steps,
                faults,
                system,
                wall,
                resident * PAGE,
                where,
            )
        )
    return found


@dataclass(frozen=True, slots=True)
class Figure:
    """Several runs of one measurement."""

    median: float
    lowest: float
    highest: float
    runs: int

    def times(self, factor: float) -> Figure:
        """The same in another unit; `factor` is above 0."""
        return Figure(self.median * factor, self.lowest * factor, self.highest * factor, self.runs)

    def as_json(self) -> dict[str, float | int]:
        """For the results file."""
        return {"median": self.median, "lowest": self.lowest, "highest": self.highest, "runs": self.runs}


def figure(values: Iterable[float]) -> Figure:
    """Median and range. Raises ValueError without values."""
    found = sorted(values)
    if not found:
        raise ValueError("nothing was measured")
    return Figure(statistics.median(found), found[0], found[-1], len(found))


def percent(arm: Sequence[float], base: Sequence[float]) -> Figure:
    """By how many percent each run of an arm exceeds the run of the base that began alike.

    Raises ValueError if there are not as many runs of both.
    """
    return figure(100 * (one / other - 1) for one, other in zip(arm, base, strict=True))


@dataclass(frozen=True, slots=True)
class Verdict:
    """A target, and what was measured."""

    what: str
    at_most: float | None
    at_least: float | None
    measured: float

    @property
    def met(self) -> bool:
        """Whether what was measured is within the target."""
        return (self.at_most is None or self.measured <= self.at_most) and (
            self.at_least is None or self.measured >= self.at_least
        )

    def as_json(self) -> dict[str, Any]:
        """For the results file."""
        target = {"at_most": self.at_most} if self.at_most is not None else {"at_least": self.at_least}
        return {"what": self.what, "target": target, "measured": self.measured, "met": self.met}

    def __str__(self) -> str:
        bound = f"at most {self.at_most:g}" if self.at_most is not None else f"at least {self.at_least:g}"
        return f"{'met   ' if self.met else 'MISSED'} {self.what}: {self.measured:.3f}, {bound}"


def most_different(
    arm: Mapping[str, int], base: Mapping[str, int], operations: int, count: int = 8
) -> list[tuple[str, float]]:
    """Functions whose instructions per operation differ most between two windows of as many operations."""
    names = arm.keys() | base.keys()
    found = [(name, (arm.get(name, 0) - base.get(name, 0)) / operations) for name in names]
    return sorted((one for one in found if one[1]), key=lambda one: (-abs(one[1]), one[0]))[:count]


def time_to(samples: Sequence[tuple[float, float]], level: float) -> float | None:
    """Seconds to the first sample of at least `level`, None if none reached it."""
    return next((at for at, value in samples if value >= level), None)


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Columns, the first to the left and the others to the right."""
    lines = [list(head), *(list(row) for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if not column else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )
