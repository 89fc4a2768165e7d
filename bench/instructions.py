"""Ways for a guest to report free pages, and what each adds to the instructions that the guest executes.

Guests with one CPU are booted under emulation, once for each way and run. All that a guest executes in a window counts:
its programs, the worker that reports, interrupts, idling.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.counted_guest import CPU, FIXED, MEMORY_MIB, QEMU, SHIFT, GuestFailed, Kernel, Workshop, qemu_version
from bench.figures import PAGE, Figure, Window, figure, most_different, percent
from bench.harness.bench import Say
from memhint.objects.units import GIB, MIB

TELLING = GIB
"""Host cost per GiB is not worked out from less than this."""
HELD = 700 * MIB
"""A QEMU that has more when a window opens was not relieved of the 800 MiB that its guest had used and freed."""

CLOCKS_DIFFER = 0.002
"""With -icount the time stamp counter follows the steps."""


@dataclass(frozen=True, slots=True)
class Variant:
    """A kernel and how it reports."""

    name: str
    series: str
    reporting: bool
    words: str = ""
    locked: bool = False
    """QEMU's memory is locked: reports are answered, and nothing is discarded."""
    counted: bool = True
    """It reports in the windows, and its kernel counts that."""
    against: str = "unmodified"
    """The way that a target for its instructions is measured from."""
    apart: bool = False
    """Its runs begin as no other way's do: what they differ by is chance."""

    @property
    def returned(self) -> bool:
        """The host has got back what was free before the first window."""
        return self.reporting and not self.locked and "enabled=0" not in self.words


BASE = Variant("unmodified", "none", False, counted=False)
AGAIN = Variant("unmodified, begun differently", "none", False, counted=False, apart=True)
STOCK = Variant("unmodified, reporting", "none", True, counted=False)
DISABLED = Variant("applied, disabled at boot", "stats", True, "page_reporting.enabled=0", counted=False)
# What has reported once cannot switch off the kernel's check for reported pages again, with the patches or without.
PAUSED = Variant("applied, paused", "stats", True, "pause=1", counted=False, against=STOCK.name)
ENABLED = Variant("applied, enabled", "stats", True)
KEPT = Variant("enabled, the host discards nothing", "stats", True, locked=True)
QUICK = Variant("enabled, 200 ms", "stats", True, "page_reporting.page_reporting_delay_ms=200")
BITMAP = Variant("bitmap", "bitmap", True, "page_reporting.bitmap=1")
WAYS = (BASE, AGAIN, STOCK, DISABLED, PAUSED, KEPT, ENABLED, QUICK, BITMAP)

Counted = dict[str, list[dict[str, Window]]]
"""By way, one element per run, by window."""


def count(
    works: Workshop,
    kernels: dict[str, Kernel],
    ways: Sequence[Variant],
    runs: int,
    words: str,
    say: Say,
    jobs: int | None = None,
) -> Counted:
    """Boot each way once per run, `jobs` guests at a time (as many as there are CPUs); that does not change the counts.

    A run's number changes how its guests begin, so that runs are no copies of each other. Raises GuestFailed, also if
    a way did not do what it is for.
    """

    def one(way: Variant, run: int) -> dict[str, Window]:
        all_words = f"{way.words} {words} skew={run + runs * way.apart}"
        found = works.run(kernels[way.series], reporting=way.reporting, words=all_words, locked=way.locked)
        check(way, found)
        say(f"counted: {way.name}, run {run + 1} of {runs}")
        return {window.name: window for window in found}

    say(f"counting: {runs} x {len(ways)} guests")
    with works.guests.pool(jobs or os.cpu_count()) as pool:
        work = [(way.name, pool.submit(one, way, run)) for run in range(runs) for way in ways]
        done = [(name, future.result()) for name, future in work]
    return {way.name: [found for name, found in done if name == way.name] for way in ways}


def check(way: Variant, found: Sequence[Window]) -> None:
    """Raise GuestFailed unless the guest reported if it was to, and the host got its memory back if it was to.

    The clock of the guest has to agree with the plugin, too. A block of code that a fault ends early is counted whole.
    """
    for window in found:
        if abs(window.ticks - (window.steps << SHIFT)) > CLOCKS_DIFFER * window.ticks:
            raise GuestFailed(f"{way.name}, {window.name}: {window.steps} steps took {window.ticks} ticks")
    pages = sum(window.pages for window in found)
    if way.counted != bool(pages):
        raise GuestFailed(f"{way.name}: {pages} pages were reported while instructions were counted")
    resident = found[0].resident
    if way.returned != (resident < HELD):
        raise GuestFailed(f"{way.name}: QEMU had {resident // MIB} MiB when the first window opened")


def per_operation(counted: Counted, way: Variant, window: str) -> list[float]:
    """Instructions per operation, run by run."""
    return [run[window].per_operation for run in counted[way.name]]


def against(counted: Counted, way: Variant, other: str, window: str) -> Figure:
    """Percent of instructions more than another way."""
    return percent(per_operation(counted, way, window), [run[window].per_operation for run in counted[other]])


def dearest(counted: Counted, way: Variant, windows: Iterable[str]) -> float:
    """The largest median, over windows, of the percent of instructions that a way adds to what it is held to."""
    return max(against(counted, way, way.against, window).median for window in windows)


def reported(run: dict[str, Window]) -> int:
    """Bytes reported in all windows of a run."""
    return sum(window.pages for window in run.values()) * PAGE


def host_costs(counted: Counted, way: Variant) -> tuple[Figure, Figure] | None:
    """Minor faults, and milliseconds of system time, of QEMU per GiB reported beyond those of the unmodified kernel.

    None for a way that reported too little to tell.
    """
    faults, system = [], []
    for run, base in zip(counted[way.name], counted[BASE.name], strict=True):
        gib = reported(run) / GIB
        if gib * GIB < TELLING:
            return None
        faults.append(sum(run[name].minor_faults - base[name].minor_faults for name in run) / gib)
        system.append(sum(run[name].system_us - base[name].system_us for name in run) / 1000 / gib)
    return figure(faults), figure(system)


def where(counted: Counted, way: Variant, windows: dict[str, str]) -> str:
    """The functions that make a way differ from the unmodified kernel, by window."""
    told = []
    for window, title in windows.items():
        one, base = counted[way.name][0][window], counted[BASE.name][0][window]
        found = most_different(one.functions, base.functions, one.operations, 5)
        told.append(f"{title}: {', '.join(f'{name} {value:+.2f}' for name, value in found) or 'nowhere'}")
    return f"Where {way.name} differs, in instructions per operation: {'; '.join(told)}."


def environment(kernels: dict[str, Kernel], runs: int) -> dict[str, Any]:
    """What counts depend on."""
    manifests = {name: json.loads((one.folder / "manifest.json").read_text()) for name, one in kernels.items()}
    huge = Path("/sys/kernel/mm/transparent_hugepage/enabled")
    return {
        "huge_pages_of_the_host": huge.read_text().strip() if huge.exists() else "none",
        "qemu": qemu_version(QEMU)[1],
        "guest": f"one CPU ({CPU}), {MEMORY_MIB} MiB, -icount shift={SHIFT}, {FIXED}",
        "kernels": {name: f"{one['source']}, {one['compiler']}" for name, one in manifests.items()},
        "runs": runs,
    }
