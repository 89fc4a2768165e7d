"""Fragments: a guest whose free memory is all in single pages, and what each way of getting it back takes."""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench import khugepaged, ksm
from bench.counted_guest import MEMORY_MIB, SHIFT, GuestFailed, Kernel, Workshop, kernel, workshop
from bench.cpu import thread_seconds
from bench.duty_host import RECYCLER as THREADS
from bench.figures import Verdict, Window, figure, most_different, windows
from bench.harness.bench import Bench, Say
from bench.harness.precondition import PreconditionFailed, ksm_is_off, no_other_guests
from bench.harness.result import BYTES, Arm, Column, Plot, Result, Table
from bench.harness.scale import Scale
from bench.resident import resident_of
from lab.errors import ImageError
from lab.patched import emulator_program
from memhint.objects.units import GIB, MIB, mib

GOAL_RETURNED = 0.95  # of what order 0 gets back
GOAL_INSTRUCTIONS = 0.2  # of those that order 0 takes
GOAL_BATCHES = 0.01  # of those that order 0 has: none but for a whole block now and then
CLEARING = ("clear_page_orig", "clear_page_rep", "clear_page_erms")
"""The kernel's ways to clear a page, which take from 1 to 700 instructions: it chooses by the processor."""
REST = 30  # seconds after the last page was freed
SETTLE = 60  # seconds before, until nothing comes back any more
PACE = {"recycler-period-ms": 1000, "recycler-max-bytes": 0, "recycler-workers": 1}
VERSION = "6.12"  # of the kernels: no other has a recycler
PATIENCE = 600.0
_LOOK = 0.2


@dataclass(frozen=True, slots=True)
class ArmSetup:
    """How memory that is free in single pages comes back, if it does."""

    name: str
    series: str = "none"
    reporting: bool = True
    words: str = ""
    ksm: Mapping[str, str] | None = None
    recycler: bool = False


OFF = ArmSetup("nothing", reporting=False)
ORDER_9 = ArmSetup("reporting, order 9", "stats")
ORDER_0 = ArmSetup("reporting, order 0", "stats", words="page_reporting.page_reporting_order=0")
ZEROED = ArmSetup("init_on_free, KSM flat out", reporting=False, words="init_on_free=1", ksm=ksm.FLAT_OUT)
BITMAP = ArmSetup("bitmap hinting engine", "bitmap", words="page_reporting.bitmap=1")
RECYCLER = ArmSetup("recycler", "recycler", recycler=True)
WAYS = (OFF, ORDER_9, ORDER_0, ZEROED, BITMAP, RECYCLER)


@dataclass(frozen=True, slots=True)
class Returned:
    """What one run came to. CPU times are in seconds, of the window."""

    resident: int  # bytes of the guest's memory that the host holds in the end
    window: Window
    threads_cpu: float  # of QEMU's threads that recycle
    ksm_cpu: float


_ABOUT = """
A guest of one GiB writes random content to every page of a range, and frees every other one: what is free then lies in
single pages, which free page reporting of order 9 cannot return. When nothing comes back any more, it uses each of the
free pages once more and frees it, and rests for 30 s. Then it is looked at what the host holds of its memory, and what
the pairs of an allocation and a free took: the instructions of the guest, from the first allocation to the end of the
rest, beyond those of a guest of which nothing comes back; and the batches that its balloon reported, each of which is
an exit and an interrupt with KVM. The recycler has neither; what is left there are whole blocks, which it leaves to
reporting.

The instructions are counted one by one, as for [page faults](#page-faults-in-a-guest-that-reports): the guest's clock
follows them, its one program is the only one that it runs, and all guests rest for the same time of that clock. While
they rest it goes as fast as the wall's, so that the host's threads have their time. Clearing pages is told apart and
left out of the targets: a page that was recycled and is wanted cleared is not cleared again, and how many instructions
that spares depends on the processor, from 1 with `rep stosb` to 700 here.

`nothing` is what all are measured from. The recycler works at one pass a second with one thread; `init_on_free` zeroes
what is freed, and KSM maps the zero page in its place. CPUs keep as few free pages to themselves as can be set.

The host's khugepaged has the `max_ptes_none` that memhint sets with `[khugepaged] own`. As the kernel ships it, 511, it
gives absent pages their memory again to make huge pages: on a machine that had nothing else to do, order 0 kept 88 % of
what is free instead of 97 %, and the recycler 76 % instead of 96 %, within these minutes.
"""


def measure(scale: Scale, say: Say) -> Result:
    """Eight minutes at the short scale. What is counted does not depend on what else the machine does."""
    no_other_guests()
    ksm_is_off()
    smoke = scale is Scale.SMOKE
    data, runs = (96 * MIB, 1) if smoke else (240 * MIB, {Scale.SHORT: 1}.get(scale, 3))
    ways = (OFF, ORDER_0, RECYCLER) if smoke else WAYS
    settle, rest = (10, 5) if smoke else (SETTLE, REST)
    words = f"data={mib(data)} all=0 settle={settle} rest={rest}"
    try:
        kernels = {series: kernel(series, VERSION) for series in dict.fromkeys(way.series for way in ways)}
        with khugepaged.sparing(), workshop("fragments", str(emulator_program())) as works:
            found = _runs(works, kernels, ways, runs, words, say)
    except (GuestFailed, ImageError) as error:
        raise PreconditionFailed(str(error)) from None
    return told(scale, found, data, {"settle_s": settle, "rest_s": rest, "runs": runs})


def told(scale: Scale, found: Mapping[str, list[Returned]], data: int, around: Mapping[str, Any]) -> Result:
    """The result of what was found."""
    return Result(
        "fragments",
        scale,
        {
            "guest": f"{MEMORY_MIB} MiB, 1 CPU, -icount shift={SHIFT},sleep=on",
            "allocated_mib": mib(data),
            "free_mib": mib(data // 2),
            **around,
            "max_ptes_none": khugepaged.SHIPPED,
            **PACE,
        },
        (_table(found, data),),
        targets(found),
        (
            Plot("Guest memory that the host holds", "MiB", column="resident"),
            Plot("Guest instructions for an allocation and a free", "instructions", column="instructions"),
        ),
        notes(found),
    )


def _runs(
    works: Workshop, kernels: Mapping[str, Kernel], ways: Sequence[ArmSetup], runs: int, words: str, say: Say
) -> dict[str, list[Returned]]:
    """As many guests at a time as there are CPUs, and those that KSM merges after them."""

    def one(way: ArmSetup, run: int) -> Returned:
        found = _run(works, kernels[way.series], way, f"{words} skew={run}")
        say(f"{way.name}: {mib(found.resident)} MiB resident, {found.window.batches} batches")
        return found

    todo = [(way, run) for way in ways for run in range(runs)]
    found: dict[str, list[Returned]] = {way.name: [] for way in ways}
    with works.guests.pool(os.cpu_count()) as pool:
        alone = [(way, pool.submit(one, way, run)) for way, run in todo if way.ksm is None]
        for way, future in alone:
            found[way.name].append(future.result())
    for way, run in todo:
        if way.ksm is not None:
            found[way.name].append(one(way, run))
    return found


def _run(works: Workshop, booted: Kernel, way: ArmSetup, words: str) -> Returned:
    device = f"id=balloon,free-page-reporting={'on' if way.reporting else 'off'}"
    if way.recycler:
        device += ",page-recycler=on," + ",".join(f"{name}={value}" for name, value in PACE.items())
    with (
        tempfile.TemporaryDirectory(prefix="memhint-fragments-") as scratch,
        ksm.scanning(way.ksm) if way.ksm is not None else nullcontext(),
    ):
        folder = Path(scratch)
        clock = f"shift={SHIFT},sleep=on"
        command = works.command(
            booted, folder, device=device, words=f"{way.words} {words}", clock=clock, merge=way.ksm is not None
        )
        with (folder / "errors").open("wb") as errors, works.guests.started(command, stderr=errors) as guest:
            _said(folder, guest, "opened", way)
            process = Path(f"/proc/{guest.pid}")
            threads, merger = thread_seconds(process, THREADS), ksm.ksmd_seconds()
            _said(folder, guest, "window ", way)
            held = resident_of(guest.pid, MEMORY_MIB * MIB)
            threads, merger = thread_seconds(process, THREADS) - threads, ksm.ksmd_seconds() - merger
            try:
                guest.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                raise GuestFailed(f"{way.name}: the guest did not end") from None
        try:
            told = (folder / "console").read_text(errors="replace"), (folder / "counted").read_text()
            (window,) = windows(*told, booted.symbols)
        except ValueError as error:
            raise GuestFailed(f"{way.name}: {error}") from None
    # What KSM maps from the zero page is in no process's memory any more, what it merged still is.
    return Returned(held.guest + held.merged, window, threads, merger)


def _said(folder: Path, guest: subprocess.Popen[bytes], line: str, way: ArmSetup) -> None:
    """Wait until the guest has said a line that begins so. Raises GuestFailed."""
    end = time.monotonic() + PATIENCE
    console = folder / "console"
    while True:
        told = console.read_text(errors="replace") if console.exists() else ""
        if any(one.startswith(line) for one in told.splitlines()):
            return
        if guest.poll() is not None or time.monotonic() > end:
            raise GuestFailed(f"{way.name}: the guest has not said {line!r}:\n{told[-800:]}{_errors(folder)}")
        time.sleep(_LOOK)


def _errors(folder: Path) -> str:
    return (folder / "errors").read_text(errors="replace")[-800:]


def targets(found: Mapping[str, list[Returned]]) -> tuple[Verdict, ...]:
    """The recycler against order 0, the median of each."""
    returned = {name: _returned(found, name) for name in found}
    cost = {name: _cost(found, name) for name in found}
    share = returned[RECYCLER.name] / max(1.0, returned[ORDER_0.name])
    return (
        Verdict("of what order 0 returns", None, GOAL_RETURNED, share),
        Verdict(
            "of the guest instructions that order 0 takes",
            GOAL_INSTRUCTIONS,
            None,
            max(0.0, cost[RECYCLER.name]) / max(1.0, cost[ORDER_0.name]),
        ),
        Verdict(
            "of the batches that order 0 has",
            GOAL_BATCHES,
            None,
            _batches(found, RECYCLER) / max(1, _batches(found, ORDER_0)),
        ),
    )


def notes(found: Mapping[str, list[Returned]]) -> tuple[str, ...]:
    """Where the instructions are that a way has beyond those of `nothing`."""
    base = found[OFF.name][0].window
    said = []
    for way in (ORDER_0, RECYCLER):
        most = most_different(found[way.name][0].window.functions, base.functions, base.operations, 6)
        said.append(
            f"{way.name}, where its instructions for a pair are: "
            + (", ".join(f"`{name}` {value:+.1f}" for name, value in most) or "nowhere")
        )
    return tuple(said)


def _batches(found: Mapping[str, list[Returned]], way: ArmSetup) -> int:
    return max((one.window.batches for one in found.get(way.name, [])), default=0)


def _median(values: list[float]) -> float:
    return figure(values).median


def _returned(found: Mapping[str, list[Returned]], name: str) -> float:
    """Bytes that the host has less than with nothing."""
    held = _median([float(one.resident) for one in found[OFF.name]])
    return held - _median([float(one.resident) for one in found[name]])


def _cost(found: Mapping[str, list[Returned]], name: str) -> float:
    """Instructions of a guest for a pair, without those that clear, beyond those of one of which nothing comes back."""
    return _median([_each(one.window) for one in found[name]]) - _median([_each(one.window) for one in found[OFF.name]])


def _each(window: Window) -> float:
    return window.per_operation - _clearing(window)


def _clearing(window: Window) -> float:
    return sum(window.functions.get(name, 0) for name in CLEARING) / window.operations


def _cleared(found: Mapping[str, list[Returned]], name: str) -> float:
    """Instructions that clear pages, for a pair, beyond the same."""
    base = _median([_clearing(one.window) for one in found[OFF.name]])
    return _median([_clearing(one.window) for one in found[name]]) - base


def _table(found: Mapping[str, list[Returned]], data: int) -> Table:
    columns = (
        Column("resident", "held by the host", BYTES, 0),
        Column("share", "of what is free, returned", "%", 1),
        Column("instructions", "guest instructions for an allocation and a free", "", 0),
        Column("clearing", "and to clear pages", "", 0),
        Column("batches", "batches for each GiB returned", "", 0),
        Column("threads", "CPU of recycling threads", "s", 2),
        Column("ksm", "CPU of KSM", "s", 2),
    )
    arms = []
    for name, runs in found.items():
        returned = _returned(found, name)
        figures: dict[str, Any] = {
            "resident": figure([float(one.resident) for one in runs]),
            "share": None if name == OFF.name else figure([100 * returned / (data // 2)]),
            "instructions": None if name == OFF.name else figure([_cost(found, name)]),
            "clearing": None if name == OFF.name else figure([_cleared(found, name)]),
            "batches": figure([one.window.batches / (returned / GIB) for one in runs]) if returned >= MIB else None,
            "threads": figure([one.threads_cpu for one in runs]) if name == RECYCLER.name else None,
            "ksm": figure([one.ksm_cpu for one in runs]) if name == ZEROED.name else None,
        }
        arms.append(Arm(name, figures))
    shown = [one for one in columns if any(arm.figures[one.key] is not None for arm in arms)]
    return Table(f"{mib(data // 2)} MiB free in single pages", shown, arms)


BENCH = Bench("fragments", "Memory that is free in single pages", _ABOUT, measure)
