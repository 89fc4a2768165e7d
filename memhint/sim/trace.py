"""Traces of what VMs used: our own columns in CSV or Parquet, and those of GWA-T-12 (Bitbrains).

Our columns: ``vm`` (a name), ``time_s`` (seconds, from any zero), ``assigned_mib`` (the VM's memory, the same in all
its rows) and ``demand_mib`` (what it used at that time, no more than it was assigned). Rows of one VM are in the order
of time; VMs may alternate. Further columns are left alone.

GWA-T-12: a file per VM, or a directory of them; ``;`` between columns; "Memory capacity provisioned [KB]" and "Memory
usage [KB]" in KiB. The published files give seconds under "Timestamp [ms]": numbers too small for milliseconds since
2001 are taken for seconds. A repeated time is one moment, of which the most holds. What a VM was provisioned at most
is its memory. The archive has rows that use more than that: they are cut to it and counted. In a directory, VMs without
any row or memory are left out and counted.

A VM runs from its first row to its last. Between rows it uses what the row before says; of several rows in a step the
most holds.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from memhint.objects.counted import counted
from memhint.objects.units import KIB, MIB
from memhint.sim import published
from memhint.sim.fleet import Fleet, Floats, HostShape, Ints

COLUMNS = ("vm", "time_s", "assigned_mib", "demand_mib")
_TIME, _PROVISIONED, _USED = "Timestamp [ms]", "Memory capacity provisioned [KB]", "Memory usage [KB]"
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_LEAST_MS = 1e12  # milliseconds of September 2001; in seconds far beyond any trace
_MOST_BYTES = 8 << 30  # of the matrix of steps and VMs


class TraceError(ValueError):
    """A trace that cannot be read: ``path``, ``line`` (or row, from 1; None where it is about the whole) and what."""

    def __init__(self, path: Path, line: int | None, what: str) -> None:
        self.path, self.line, self.what = path, line, what
        super().__init__(f"{path}: {what}" if line is None else f"{path}:{line}: {what}")


@dataclass(slots=True)
class UsageSeries:
    """One VM's use over time. Bytes and seconds; times never fall."""

    memory: float
    times: list[float] = field(default_factory=list)
    demands: list[float] = field(default_factory=list)


@dataclass(slots=True)
class Trace:
    """The VMs of a trace by name, and what of it was not taken as it is written."""

    courses: dict[str, UsageSeries]
    cut: dict[str, int] = field(default_factory=dict)  # rows that used more than the VM's memory
    left_out: list[str] = field(default_factory=list)  # VMs without any row or memory

    @property
    def words(self) -> str:
        """What is to be said of it; empty where everything was taken."""
        found = []
        if self.cut:
            rows = counted(sum(self.cut.values()), "row")
            vms = counted(len(self.cut), "VM")
            verb = "uses" if sum(self.cut.values()) == 1 else "use"
            found.append(f"{rows} of {vms} {verb} more than the VM has: cut to that")
        if self.left_out:
            found.append(f"left out: {counted(len(self.left_out), 'VM')} without any row or memory")
        return "; ".join(found)


def read(path: Path) -> Trace:
    """The VMs of a trace.

    :raises TraceError: when it cannot be read, with the line
    """
    if path.is_dir():
        files = sorted(path.glob("*.csv"))
        if not files:
            raise TraceError(path, None, "a directory without any .csv")
        return _read_bitbrains(files, alone=False)
    if path.suffix == ".parquet":
        return Trace(_read_rows(path, _parquet_rows(path)))
    if _first_line(path).lstrip().startswith(_TIME):
        return _read_bitbrains([path], alone=True)
    return Trace(_read_rows(path, _csv_rows(path)))


def check_size(steps: int, courses: int) -> None:
    """Whether a matrix of steps and VMs can be had.

    :raises ValueError: when it would need too much memory
    """
    if steps * courses * 8 > _MOST_BYTES:
        raise ValueError(f"{steps} steps of {courses} VMs are too much: take a longer step, or fewer VMs")


def fleet_of(
    courses: dict[str, UsageSeries],
    *,
    name: str,
    step: float,
    seed: int,
    hosts: int | None = None,
    shape: HostShape | None = None,
    offered: float = published.OFFERED,
) -> Fleet:
    """A fleet of the VMs of a trace. VMs that are there when it begins come within its first day or quarter.

    :param hosts: if None, as many as have 1/``offered`` of the memory that the trace's VMs have at most at once
    :raises ValueError: when it would need too much memory
    """
    shape = shape or HostShape()
    begin = min(course.times[0] for course in courses.values())
    end = max(course.times[-1] for course in courses.values())
    steps = math.floor((end - begin) / step) + 1
    check_size(steps, len(courses))
    levels, arrival, departure = levels_of(courses, begin, step, steps)
    memory = np.array([float(math.floor(course.memory)) for course in courses.values()])
    change = np.zeros(steps + 1)
    np.add.at(change, arrival, memory)
    np.subtract.at(change, departure, memory)
    there = np.flatnonzero(arrival == 0)
    first = max(1, min(steps // 4, math.ceil(published.FILL / step)))
    spread = np.random.default_rng(seed).permutation(there.size) * first // max(1, there.size)
    arrival[there] = np.minimum(spread, departure[there] - 1)
    order = np.argsort(arrival, kind="stable")
    return Fleet(
        name=name,
        shape=shape,
        hosts=hosts or max(1, round(change.cumsum().max() / (offered * shape.pool))),
        step=step,
        steps=steps,
        arrival=arrival[order],
        departure=departure[order],
        memory=memory[order],
        offset=np.zeros(len(courses)),
        scale=np.ones(len(courses)),
        row=order.astype(np.int64),
        levels=levels,
        warm_up=min(steps - 1, first),
    )


def levels_of(courses: dict[str, UsageSeries], begin: float, step: float, steps: int) -> tuple[Floats, Ints, Ints]:
    """What each VM uses in each step in bytes (steps, VMs), and the steps in which it comes and in which it is gone.

    A step without a row has what the one before has; before its first row a VM uses nothing.
    """
    levels = np.zeros((steps, len(courses)))
    arrival = np.zeros(len(courses), dtype=np.int64)
    departure = np.zeros(len(courses), dtype=np.int64)
    for row, course in enumerate(courses.values()):
        at = np.floor((np.array(course.times) - begin) / step).astype(np.int64)
        arrival[row], departure[row] = at[0], at[-1] + 1
        np.maximum.at(levels[:, row], at, course.demands)
        seen = np.zeros(steps, dtype=bool)
        seen[at] = True
        newest = np.maximum.accumulate(np.where(seen, np.arange(steps), 0))
        levels[:, row] = levels[newest, row]
    return levels, arrival, departure


def _read_rows(path: Path, rows: Iterable[tuple[int, tuple[Any, ...]]]) -> dict[str, UsageSeries]:
    courses: dict[str, UsageSeries] = {}
    for line, (vm, time, assigned, demand) in rows:
        name = str(vm).strip() if vm is not None else ""
        if not name:
            raise TraceError(path, line, "vm is empty")
        now = _number(path, line, "time_s", time)
        memory = _number(path, line, "assigned_mib", assigned) * MIB
        use = _number(path, line, "demand_mib", demand) * MIB
        if memory <= 0:
            raise TraceError(path, line, f"assigned_mib is {assigned}, not above 0")
        course = courses.setdefault(name, UsageSeries(memory))
        if course.memory != memory:
            raise TraceError(path, line, f"assigned_mib of {name} changes from {course.memory / MIB:g}")
        if course.times and now <= course.times[-1]:
            raise TraceError(path, line, f"time_s of {name} does not rise: {now:g} after {course.times[-1]:g}")
        if use > memory:
            raise TraceError(path, line, f"more is used ({demand} MiB) than there is ({assigned} MiB)")
        course.times.append(now)
        course.demands.append(use)
    if not courses:
        raise TraceError(path, None, "no row")
    return courses


def _read_bitbrains(files: Sequence[Path], *, alone: bool) -> Trace:
    """:param alone: whether a VM that says nothing is an error, as it is where it is the only one"""
    trace = Trace({})
    for path in files:
        course = _read_vm(path)
        if not course.times or course.memory <= 0:
            if alone:
                raise TraceError(path, None, "no memory was ever provisioned" if course.times else "no row")
            trace.left_out.append(path.stem)
            continue
        over = sum(use > course.memory for use in course.demands)
        if over:
            trace.cut[path.stem] = over
            course.demands = [min(use, course.memory) for use in course.demands]
        trace.courses[path.stem] = course
    if not trace.courses:
        raise TraceError(files[0].parent, None, "no VM has any row and memory")
    return trace


def _read_vm(path: Path) -> UsageSeries:
    course, seconds = UsageSeries(0.0), 1.0
    for line, (time, provisioned, used) in _text_rows(path, (_TIME, _PROVISIONED, _USED), ";"):
        now = _number(path, line, _TIME, time)
        memory = _number(path, line, _PROVISIONED, provisioned) * KIB
        use = _number(path, line, _USED, used) * KIB
        if not course.times:
            seconds = 1000.0 if now >= _LEAST_MS else 1.0
        now /= seconds
        if course.times and now < course.times[-1]:
            raise TraceError(path, line, f"{_TIME} falls: {now:g} s after {course.times[-1]:g} s")
        course.memory = max(course.memory, memory)
        if course.times and now == course.times[-1]:
            course.demands[-1] = max(course.demands[-1], use)
        else:
            course.times.append(now)
            course.demands.append(use)
    return course


def _csv_rows(path: Path) -> Iterator[tuple[int, tuple[Any, ...]]]:
    return _text_rows(path, COLUMNS, ",")


def _text_rows(path: Path, columns: tuple[str, ...], delimiter: str) -> Iterator[tuple[int, tuple[str, ...]]]:
    """The wanted columns of each row, with its line."""
    try:
        with path.open(encoding="utf-8", newline="") as file:
            rows = csv.reader(file, delimiter=delimiter, strict=True)
            header = [name.strip() for name in next(rows, [])]
            places = _places(path, header, columns)
            for row in rows:
                if not row:
                    continue
                if len(row) != len(header):
                    raise TraceError(path, rows.line_num, f"{len(row)} columns, the header has {len(header)}")
                yield rows.line_num, tuple(row[place] for place in places)
    except OSError as error:
        raise TraceError(path, None, error.strerror or str(error)) from error
    except UnicodeDecodeError as error:
        raise TraceError(path, None, f"not UTF-8 text: {error.reason} at byte {error.start}") from error
    except csv.Error as error:
        raise TraceError(path, rows.line_num, str(error)) from error


def _places(path: Path, header: list[str], columns: tuple[str, ...]) -> list[int]:
    missing = [name for name in columns if name not in header]
    if missing:
        raise TraceError(path, 1, f"no column {', '.join(missing)}; there are: {', '.join(header) or 'none'}")
    return [header.index(name) for name in columns]


def _parquet_rows(path: Path) -> Iterator[tuple[int, tuple[Any, ...]]]:
    import pyarrow
    from pyarrow import parquet

    try:
        file = parquet.ParquetFile(path)
        _places(path, file.schema_arrow.names, COLUMNS)
        row = 0
        for batch in file.iter_batches(columns=list(COLUMNS)):
            values = [batch.column(name).to_pylist() for name in COLUMNS]
            for cells in zip(*values, strict=True):
                row += 1
                yield row, cells
    except OSError as error:
        raise TraceError(path, None, str(error)) from error
    except pyarrow.ArrowException as error:
        raise TraceError(path, None, f"not Parquet: {error}") from error


def _number(path: Path, line: int, name: str, cell: Any) -> float:
    """A number that is finite and not below 0."""
    written = isinstance(cell, str) and _NUMBER.fullmatch(cell.strip())
    if not written and (isinstance(cell, bool) or not isinstance(cell, (int, float))):
        raise TraceError(path, line, f"{name} is {cell!r}, not a number")
    value = float(cell)
    if not math.isfinite(value) or value < 0:
        raise TraceError(path, line, f"{name} is {cell}, not a number from 0")
    return value


def _first_line(path: Path) -> str:
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            return file.readline(4096)
    except OSError as error:
        raise TraceError(path, None, error.strerror or str(error)) from error
