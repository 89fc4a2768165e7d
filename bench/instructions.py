"""What free page reporting costs a guest, in instructions, and how fast it drains.

First, guests with one CPU are booted under emulation once for each arm and run. A plugin in QEMU counts the
instructions they execute while they allocate and free: pages of 4 KiB, blocks of 2 MiB, and as page_fault1 of
will-it-scale does. All that the guest executes in the window counts, the worker that reports, interrupts and idling
included. What reporting costs the host (faults and system time of QEMU) is in a table of its own: the two do not add
up.

Then guests free 1280 MiB in real time: how much was reported and how much had left QEMU when, by delay and by engine.

examples:
  python -m bench.instructions                     # 15 minutes on two cores, once the kernels are built
  python -m bench.instructions --quick             # 4 minutes: one run each, fewer arms
  python -m bench.instructions --json bench/results/instructions.json
  python -m bench.instructions --only drain
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.counted_guest import (
    CPU,
    FIXED,
    MEMORY_MIB,
    GuestFailed,
    Kernel,
    Workshop,
    kernel,
    qemu_version,
    say,
    workshop,
)
from bench.drain import FREED_MIB, TIMES, Drain, drain, draining_guest
from bench.figures import PAGE, Figure, Verdict, Window, figure, most_different, percent, table, value_at
from memhint.objects.units import GIB, MIB

DISABLED_AT_MOST = 0.1  # percent of the instructions of the unpatched kernel
ENABLED_AT_MOST = 1.0
FASTER_AT_LEAST = 5.0  # times, 200 ms against 2000 ms
UPSTREAM = "-0.57 to +0.17 %"
"""What the patches that brought free page reporting gave as its cost on page_fault1 (time, on hardware)."""
WORKLOADS = {"small": "4 KiB", "huge": "2 MiB", "fault": "page_fault1"}
HALVES = ("count", "drain")
TELLING = GIB
"""Host cost per GiB is not worked out from less than this."""


@dataclass(frozen=True, slots=True)
class Arm:
    """A kernel and how it reports; `at_most`: percent of additional instructions it may cost."""

    name: str
    series: str
    reporting: bool
    words: str = ""
    at_most: float | None = None
    quick: bool = True
    against: str = "unpatched"
    """The arm that `at_most` is measured from."""


BASE = Arm("unpatched", "none", False)
STOCK = Arm("unpatched, reporting", "none", True)
DISABLED = Arm("patched, disabled at boot", "stats", True, "page_reporting.enabled=0", DISABLED_AT_MOST)
# What has reported once cannot switch off the kernel's check for reported pages again, with the patches or without.
PAUSED = Arm("patched, paused", "stats", True, "pause=1", DISABLED_AT_MOST, against=STOCK.name)
ENABLED = Arm("patched, enabled", "stats", True, at_most=ENABLED_AT_MOST)
FORCED = Arm("enabled, flush each round", "stats", True, "force=1")
BITMAP = Arm("bitmap engine", "bitmap", True, "page_reporting.bitmap=1")
ARMS = (
    BASE,
    STOCK,
    DISABLED,
    PAUSED,
    ENABLED,
    Arm("enabled, 200 ms", "stats", True, "page_reporting.page_reporting_delay_ms=200", quick=False),
    FORCED,
    BITMAP,
)


@dataclass(frozen=True, slots=True)
class Size:
    """How much is run. `shift`: an instruction takes 2 to its power nanoseconds of the guest's time."""

    runs: int
    scale: int
    shift: int


# Each window is longer than the delay of 2 s. The guest then has 250 million instructions a second, a tenth of what
# processors have or less: passes come ten times as often per instruction, which overstates what the worker costs.
WHOLE = Size(runs=3, scale=100, shift=2)
QUICK = Size(runs=1, scale=100, shift=2)

Counted = dict[str, list[dict[str, Window]]]
"""By arm, one element per run, by workload."""


def main(argv: list[str] | None = None) -> int:
    """Measure and print; 0 when the targets are met."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures to this file, too")
    parser.add_argument("--quick", action="store_true", help="one run, fewer arms")
    parser.add_argument("--only", choices=HALVES, help="leave out the other half, and keep what FILE has of it")
    parser.add_argument("--jobs", type=_positive, help="guests that are counted at a time (default: one per CPU)")
    parser.add_argument("--runs", type=_positive, help="runs of each measurement (default: 3, with --quick 1)")
    parser.add_argument(
        "--qemu", default="qemu-system-x86_64", help="emulator that counts, with plugins (default: %(default)s)"
    )
    options = parser.parse_args(argv)
    size = QUICK if options.quick else WHOLE
    size = Size(options.runs or size.runs, size.scale, size.shift)
    try:
        figures = _measure(options, size, _kept(options))
    except GuestFailed as error:
        print(f"bench.instructions: {error}", file=sys.stderr)
        return 2
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps({**_kept(options), **figures}, indent=1) + "\n")
    return 0 if all(one["met"] for half in figures.values() for one in half["targets"]) else 1


def _kept(options: argparse.Namespace) -> dict[str, Any]:
    """The figures of the file: a half that is left out keeps those it has."""
    if not options.only or not options.json or not options.json.exists():
        return {}
    found: dict[str, Any] = json.loads(options.json.read_text())
    return found


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError(text)
    return number


def _measure(options: argparse.Namespace, size: Size, kept: dict[str, Any]) -> dict[str, Any]:
    arms = [arm for arm in ARMS if arm.quick or not options.quick]
    kernels = {series: kernel(series) for series in dict.fromkeys(arm.series for arm in arms)}
    figures: dict[str, Any] = {}
    verdicts: list[Verdict] = []
    engines = kept.get("count", {}).get("engines", {})
    if options.only != "drain":
        with workshop(options.qemu) as works:
            counted = count(works, kernels, arms, size, options.jobs)
        engines = engine_costs(counted)
        verdicts = judge(arms, counted)
        figures["count"] = {
            "environment": {**environment(options.qemu, kernels), **counting_environment(size)},
            "arms": arms_as_json(arms, counted),
            "engines": engines,
            "targets": [verdict.as_json() for verdict in verdicts],
        }
        print(cost_table(arms, counted) + "\n")
        print(host_table(arms, counted) + "\n")
        for arm in arms:
            if any(not one.met and one.what.startswith(arm.name) for one in verdicts):
                print(where(arm, counted) + "\n")
    if options.only != "count":
        drains = measure_drains(kernels["bitmap"], size.runs)
        verdict = judge_drains(drains)
        verdicts = [*verdicts, verdict]
        figures["drain"] = {
            "environment": environment("qemu-system-x86_64", {"bitmap": kernels["bitmap"]}),
            "freed_mib": FREED_MIB,
            "runs": {name: [one.as_json() for one in runs] for name, runs in drains.items()},
            "targets": [verdict.as_json()],
        }
        print(drain_table(drains, engines) + "\n")
    for verdict in verdicts:
        print(verdict)
    return figures


def environment(qemu: str, kernels: dict[str, Kernel]) -> dict[str, Any]:
    """What all figures depend on."""
    manifests = {name: json.loads((one.folder / "manifest.json").read_text()) for name, one in kernels.items()}
    huge = Path("/sys/kernel/mm/transparent_hugepage/enabled")
    return {
        "host": f"{platform.machine()}, Linux {platform.release()}",
        "host_huge_pages": huge.read_text().strip() if huge.exists() else "",
        "qemu": qemu_version(qemu)[1],
        "guest_kernels": {
            name: f"{one['source']}, series {one['series']}, {one['compiler']}" for name, one in manifests.items()
        },
    }


def counting_environment(size: Size) -> dict[str, Any]:
    """What counts depend on besides."""
    return {
        "counting": f"TCG plugin, -icount shift={size.shift},sleep=off, 1 CPU ({CPU}), {MEMORY_MIB} MiB",
        "words": FIXED,
        "runs": size.runs,
        "scale_percent": size.scale,
    }


# -- instructions ------------------------------------------------------------------------------------------------------


def count(
    works: Workshop, kernels: dict[str, Kernel], arms: Sequence[Arm], size: Size, jobs: int | None = None
) -> Counted:
    """Boot each arm once per run, `jobs` guests at a time (as many as there are CPUs); that does not change the counts.

    A run's number changes how its guests begin, so that runs are no copies of each other. Raises GuestFailed, also if
    an arm that is to report did not, or one that is not to did.
    """

    def one(arm: Arm, run: int) -> dict[str, Window]:
        words = f"{arm.words} scale={size.scale} skew={run}"
        found = works.run(kernels[arm.series], reporting=arm.reporting, words=words, shift=size.shift)
        _check(arm, found)
        say(f"counted: {arm.name}, run {run + 1} of {size.runs}")
        return {window.name: window for window in found}

    say(f"counting: {size.runs} x {len(arms)} guests")
    with ThreadPoolExecutor(jobs or os.cpu_count()) as pool:
        work = {arm.name: [pool.submit(one, arm, run) for run in range(size.runs)] for arm in arms}
        try:
            return {name: [future.result() for future in futures] for name, futures in work.items()}
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def _check(arm: Arm, found: Sequence[Window]) -> None:
    pages = sum(window.pages for window in found)
    # an unpatched kernel reports without counting
    expected = arm.reporting and arm.series != "none" and arm not in (DISABLED, PAUSED)
    if expected != bool(pages):
        raise GuestFailed(f"{arm.name}: {pages} pages were reported while instructions were counted")


def per_operation(counted: Counted, arm: str, workload: str) -> list[float]:
    """Instructions per operation, run by run."""
    return [run[workload].per_operation for run in counted[arm]]


def against(counted: Counted, arm: Arm, other: str, workload: str) -> Figure:
    """Percent of instructions more than another arm."""
    return percent(per_operation(counted, arm.name, workload), per_operation(counted, other, workload))


def judge(arms: Sequence[Arm], counted: Counted) -> list[Verdict]:
    """The median of each workload against the arm's target."""
    return [
        Verdict(
            f"{arm.name}, {title}: percent of guest instructions more than {arm.against}",
            arm.at_most,
            None,
            against(counted, arm, arm.against, workload).median,
        )
        for arm in arms
        if arm.at_most is not None
        for workload, title in WORKLOADS.items()
    ]


def reported_bytes(run: dict[str, Window]) -> int:
    """Bytes reported in all windows of a run."""
    return sum(window.pages for window in run.values()) * PAGE


def host_costs(counted: Counted, arm: Arm) -> tuple[Figure, Figure] | None:
    """Minor faults, and milliseconds of system time, of QEMU per GiB reported beyond those of the unpatched arm.

    None for an arm that reported too little to tell.
    """
    faults, system = [], []
    for run, base in zip(counted[arm.name], counted[BASE.name], strict=True):
        gib = reported_bytes(run) / GIB
        if gib * GIB < TELLING:
            return None
        faults.append(sum(run[name].minor_faults - base[name].minor_faults for name in run) / gib)
        system.append(sum(run[name].system_us - base[name].system_us for name in run) / 1000 / gib)
    return figure(faults), figure(system)


def engine_costs(counted: Counted) -> dict[str, dict[str, float]]:
    """What each engine adds in instructions per 2 MiB block that is freed, per 4 KiB page that is freed, and per block
    of 2 MiB that is reported (from the workload of 2 MiB blocks), against the unpatched kernel; medians.
    """
    found = {}
    for arm in (ENABLED, FORCED, BITMAP):
        if arm.name not in counted:
            continue
        pairs = list(zip(counted[arm.name], counted[BASE.name], strict=True))
        extra = [run["huge"].instructions - base["huge"].instructions for run, base in pairs]
        blocks = [run["huge"].pages * PAGE / (2 * MIB) for run, _ in pairs]
        small = [run["small"].per_operation - base["small"].per_operation for run, base in pairs]
        found[arm.name] = {
            "per_2_mib_free": statistics.median(extra) / pairs[0][0]["huge"].operations,
            "per_4_kib_free": statistics.median(small),
            "per_2_mib_reported": statistics.median(
                one / count if count else 0.0 for one, count in zip(extra, blocks, strict=True)
            ),
            "blocks_per_batch": statistics.median(
                count / max(run["huge"].batches, 1) for (run, _), count in zip(pairs, blocks, strict=True)
            ),
        }
    return found


def arms_as_json(arms: Sequence[Arm], counted: Counted) -> list[dict[str, Any]]:
    """Everything that was counted."""
    found = []
    for arm in arms:
        runs = counted[arm.name]
        workloads = {
            title: {
                "operations": runs[0][workload].operations,
                "instructions_per_operation": figure(per_operation(counted, arm.name, workload)).as_json(),
                "percent_against_unpatched": against(counted, arm, BASE.name, workload).as_json(),
                f"percent_against_{arm.against}": against(counted, arm, arm.against, workload).as_json(),
                "pages_reported": [run[workload].pages for run in runs],
                "batches": [run[workload].batches for run in runs],
                "qemu_minor_faults": [run[workload].minor_faults for run in runs],
                "qemu_system_ms": [round(run[workload].system_us / 1000, 1) for run in runs],
                "where": dict(_differences(arm, counted, workload)),
            }
            for workload, title in WORKLOADS.items()
        }
        host = host_costs(counted, arm)
        found.append(
            {
                "arm": arm.name,
                "series": arm.series,
                "free_page_reporting": arm.reporting,
                "words": arm.words,
                "target": None if arm.at_most is None else {"percent_at_most": arm.at_most, "against": arm.against},
                "met": None if arm.at_most is None else all(one.met for one in judge([arm], counted)),
                "workloads": workloads,
                "host_per_gib_reported": None
                if host is None
                else {"minor_faults": host[0].as_json(), "system_ms": host[1].as_json()},
            }
        )
    return found


def _differences(arm: Arm, counted: Counted, workload: str) -> list[tuple[str, float]]:
    one, base = counted[arm.name][0][workload], counted[BASE.name][0][workload]
    return [(name, round(value, 3)) for name, value in most_different(one.functions, base.functions, one.operations)]


def where(arm: Arm, counted: Counted) -> str:
    """The functions that make an arm differ from the unpatched kernel."""
    lines = [f"where {arm.name} differs from {BASE.name}, in instructions per operation:"]
    for workload, title in WORKLOADS.items():
        found = ", ".join(f"{name} {value:+.2f}" for name, value in _differences(arm, counted, workload))
        lines.append(f"  {title}: {found or 'nowhere'}")
    return "\n".join(lines)


def cost_table(arms: Sequence[Arm], counted: Counted) -> str:
    """Guest instructions per operation, and how many percent more than unpatched: median, and the range in brackets."""
    head = ["guest instructions per", *(cell for title in WORKLOADS.values() for cell in (title, "more, %", "(range)"))]
    rows = []
    for arm in arms:
        row = [arm.name]
        for workload in WORKLOADS:
            more = against(counted, arm, BASE.name, workload)
            row.append(f"{figure(per_operation(counted, arm.name, workload)).median:.1f}")
            row.append("" if arm is BASE else f"{more.median:+.3f}")
            row.append("" if arm is BASE else f"({more.lowest:+.3f} {more.highest:+.3f})")
        rows.append(row)
    spread = max(
        figure(per_operation(counted, arm.name, workload)).spread_percent for arm in arms for workload in WORKLOADS
    )
    return f"{table(head, rows)}\nlargest spread of one figure over the runs: {spread:.3f} %; upstream: {UPSTREAM}"


def host_table(arms: Sequence[Arm], counted: Counted) -> str:
    """What reporting costs the host."""
    rows = []
    for arm in arms:
        mib = statistics.median(reported_bytes(run) for run in counted[arm.name]) / MIB
        batches = statistics.median(sum(window.batches for window in run.values()) for run in counted[arm.name])
        costs = host_costs(counted, arm)
        told = arm.series != "none" or not arm.reporting
        cells = ["too little", ""] if costs is None else [f"{costs[0].median:.0f}", f"{costs[1].median:.0f}"]
        rows.append([arm.name, f"{mib:.0f}" if told else "unknown", f"{batches:.0f}" if told else "", *cells])
    head = ["host cost per GiB reported", "reported MiB", "batches", "QEMU faults", "QEMU system ms"]
    return table(head, rows)


# -- drain -------------------------------------------------------------------------------------------------------------

AT_2000, AT_200, AT_ONCE = "free lists, 2000 ms", "free lists, 200 ms", "bitmap"


def measure_drains(both: Kernel, runs: int) -> dict[str, list[Drain]]:
    """Drain speed of the two engines of one kernel, the free lists at two delays. Raises GuestFailed."""
    found: dict[str, list[Drain]] = {AT_2000: [], AT_200: [], AT_ONCE: []}
    with draining_guest(both) as guest:
        for run in range(runs):
            for name, delay in ((AT_2000, 2000), (AT_200, 200)):
                say(f"draining: run {run + 1} of {runs}: {name}")
                found[name].append(drain(guest, delay))
    with draining_guest(both, "page_reporting.bitmap=1") as guest:
        for run in range(runs):
            say(f"draining: run {run + 1} of {runs}: {AT_ONCE}")
            found[AT_ONCE].append(drain(guest, None))
    return found


def judge_drains(drains: dict[str, list[Drain]]) -> Verdict:
    """The worst ratio of a pair of drains, 0 if one of them did not come to 90 %."""
    ratios = [
        (slow.seconds(0.9) or 0.0) / (quick.seconds(0.9) or float("inf"))
        for slow, quick in zip(drains[AT_2000], drains[AT_200], strict=True)
    ]
    what = f"90 % of {FREED_MIB} MiB leave QEMU at 200 ms, times faster than at 2000 ms"
    return Verdict(what, None, FASTER_AT_LEAST, min(ratios))


def drain_table(drains: dict[str, list[Drain]], costs: dict[str, dict[str, float]]) -> str:
    """Engines side by side: medians over the runs; the curve is of the first run."""
    head = ["engine", "T50 s", "T90 s", "batches", "insns/2 MiB freed", "insns/2 MiB reported"]
    rows, curves = [], []
    for name, runs in drains.items():
        cost = costs.get({AT_2000: ENABLED.name, AT_ONCE: BITMAP.name}.get(name, ""))
        cells = ["", ""] if cost is None else [f"{cost['per_2_mib_free']:.0f}", f"{cost['per_2_mib_reported']:.0f}"]
        halves, most = _seconds(runs, 0.5), _seconds(runs, 0.9)
        rows.append([name, halves, most, f"{statistics.median(one.batches for one in runs):.0f}", *cells])
        curves.append([name, *(f"{value_at(runs[0].reported, at) / MIB:.0f}" for at in TIMES)])
    curve = table([f"MiB reported of {FREED_MIB} after s", *(f"{at:g}" for at in TIMES)], curves)
    return f"{table(head, rows)}\n\n{curve}"


def _seconds(runs: Sequence[Drain], share: float) -> str:
    found = [one.seconds(share) for one in runs]
    reached = [one for one in found if one is not None]
    return f"{statistics.median(reached):.2f}" if len(reached) == len(found) else "never"


if __name__ == "__main__":
    sys.exit(main())
