"""What reporting that goes on meanwhile adds to a stream through the guest's loopback device, in instructions."""

from __future__ import annotations

from collections.abc import Sequence

from bench.counted_guest import GuestFailed, kernel, workshop
from bench.figures import PAGE, Figure, Verdict, figure
from bench.harness.bench import Bench, Say
from bench.harness.precondition import PreconditionFailed, no_other_guests
from bench.harness.result import BYTES, Arm, Column, Plot, Result, Table
from bench.harness.scale import Scale
from bench.instructions import (
    BASE,
    BITMAP,
    DISABLED,
    ENABLED,
    KEPT,
    STOCK,
    Counted,
    Variant,
    against,
    count,
    environment,
    per_operation,
    where,
)

AT_MOST = 1.01  # times the instructions of the unmodified kernel
WINDOW = "stream"
WAYS = (BASE, STOCK, DISABLED, KEPT, ENABLED, BITMAP)
SMOKE = (BASE, ENABLED, BITMAP)
MIB_PER_GIB = 1024

_BY = "published, throughput (page hinting RFC v10, 2019)"
_PUBLISHED = {BASE: "1.0", ENABLED: "0.909 (bubble hinting v1, from which it came)", BITMAP: "0.969 (page hinting)"}

_ABOUT = """
As netperf's TCP_STREAM does, one process sends to another through loopback, 16 KiB at a time through socket buffers of
128 KiB, a fixed number of bytes; guest instructions are counted as for page faults, on the one CPU that the guest has.
A third process gives reporting its work: for each 256 MiB that have arrived it takes 256 MiB of huge pages, and frees
them 128 MiB later, some 300 MiB freed per second of the guest's time. It is in step with the stream, so its work is the
same in every row, and it is counted, too: 6 % of the instructions.

What a kernel without patches and without reporting takes per GiB that is moved is 1. The published figures are
throughput, on hardware, where host and network share the time; they are not compared with ours.
"""
_NOTES = (
    "Left to the kernel's own scheduling, the three processes fall into step in different ways, and two guests that "
    "begin differently differ by up to 3 %. Here they are SCHED_BATCH with slices of 100 ms, so that they take turns "
    "where one waits for the other.",
)


def measure(scale: Scale, say: Say) -> Result:
    """Ten minutes on two cores at `SHORT`, or less. Counts do not depend on what else the machine does."""
    smoke = scale is Scale.SMOKE
    if not smoke:
        no_other_guests()
    ways = SMOKE if smoke else WAYS
    runs = {Scale.SMOKE: 1, Scale.SHORT: 3}.get(scale, 9)
    size = {Scale.SMOKE: 75, Scale.SHORT: 200}.get(scale, 400)  # percent of a GiB
    try:
        kernels = {series: kernel(series) for series in dict.fromkeys(way.series for way in ways)}
        with workshop("stream") as works:
            counted = count(works, kernels, ways, runs, f"scale={size}", say)
    except GuestFailed as error:
        raise PreconditionFailed(str(error)) from None
    return told(scale, ways, counted, {**environment(kernels, runs), "moved": f"{size / 100:g} GiB"})


def told(scale: Scale, ways: Sequence[Variant], counted: Counted, around: dict[str, object]) -> Result:
    """The result of what was counted."""
    columns = (
        Column("instructions", "million instructions per GiB moved", "", 2),
        Column("times", "times unmodified", "", 4),
        Column("more", "more", "%", 3),
        Column("reported", "reported per GiB moved", BYTES, 0),
        Column("wall", "wall time per GiB, indicative", "s", 1),
    )
    held = [way for way in ways if way in (DISABLED, KEPT, ENABLED, BITMAP)]
    targets = [
        Verdict(
            f"{way.name}: guest instructions per GiB moved, times unmodified",
            AT_MOST,
            None,
            _times(counted, way).median,
        )
        for way in held
    ]
    missed = [way for way, target in zip(held, targets, strict=True) if not target.met]
    return Result(
        "netperf",
        scale,
        around,
        (Table("A stream through loopback", columns, [_arm(counted, way) for way in ways], _BY),),
        targets,
        (Plot("Guest instructions per GiB moved, more than unmodified", "%", column="more"),),
        (*_NOTES, *(where(counted, way, {WINDOW: "per MiB"}) for way in missed)),
    )


def _arm(counted: Counted, way: Variant) -> Arm:
    runs = [run[WINDOW] for run in counted[way.name]]
    gib = runs[0].operations / MIB_PER_GIB
    figures: dict[str, Figure | None] = {
        "instructions": figure(one * MIB_PER_GIB / 1e6 for one in per_operation(counted, way, WINDOW)),
        "times": None if way is BASE else _times(counted, way),
        "more": None if way is BASE else against(counted, way, BASE.name, WINDOW),
        "reported": figure(run.pages * PAGE / gib for run in runs) if way.counted else None,
        "wall": figure(run.wall_us / 1e6 / gib for run in runs),
    }
    return Arm(way.name, figures, _PUBLISHED.get(way, ""))


def _times(counted: Counted, way: Variant) -> Figure:
    base = per_operation(counted, BASE, WINDOW)
    return figure(one / other for one, other in zip(per_operation(counted, way, WINDOW), base, strict=True))


BENCH = Bench("netperf", "A stream inside a guest that reports", _ABOUT, measure, exact=True)
