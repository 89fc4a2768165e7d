"""Dedup: how long it takes, and how much CPU, until what can merge has merged."""

from __future__ import annotations

import random
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench import ksm
from bench.figures import Verdict, figure
from bench.harness.bench import Bench, Say
from bench.harness.precondition import ksm_is_off, no_other_guests
from bench.harness.result import BYTES, Arm, Column, Plot, Result, Table
from bench.harness.scale import Scale
from bench.paused_vms import PAGE, PausedVm, paused_vms
from lab.patched import emulator_program
from memhint.kernel.host import observe_host
from memhint.kernel.native import PAGES
from memhint.kernel.root import PAGE_SIZE, KernelRoot
from memhint.kernel.smaps import mergeable_bytes
from memhint.levers.dedup import ADAPTIVE, DedupLever, DedupSettings
from memhint.objects.units import MIB, mib
from memhint.pages.finder import Finder, FinderSettings
from memhint.planner.dedup import DedupPlan
from memhint.planner.dedup_ranges import RangeChoice
from memhint.store.database import open_store

VMS = 12
WORKERS = 2
SETTLE = 1.0  # seconds between the finder's two looks
ENOUGH = 0.9  # of what can merge
RUN = 64  # pages of one kind that lie side by side
GOAL_CPU = 0.5  # of flat-out KSM's
GOAL_TIME = 0.6
GOAL_CPU_LITTLE = 0.2  # where 5 % can merge
FLAT_OUT = {"use_zero_pages": "1", "advisor_mode": "none", "pages_to_scan": "1000000", "sleep_millisecs": "0"}
ADVISED = {"use_zero_pages": "1", "advisor_mode": "scan-time"}
_LOOK = 0.1
_NEVER = 1000.0  # times as much: of what did not merge enough in its time

_ABOUT = f"""
The founding test, scaled: {VMS} VMs, each with three kinds of data in equal parts: pages of its own, pages that all
VMs have, and pages that all VMs have and whose first 128 bytes are zeros, so that a compare looks further. They lie in
turns of {RUN} pages. In the second data set 5 % of each VM can merge, in pages that all VMs have.

Measured is from the moment when merging may begin until {100 * ENOUGH:.0f} % of what can merge has merged, and the CPU
that KSM's thread and memhint's finder took until then. The VMs are QEMUs that run no guest: their memory is filled from
the host, as emulated guests would take the CPU that is measured. `flat out` is KSM as the founding test configured it:
no sleep, a million pages at once. `scan-time advisor` is Linux' own pace with its defaults. memhint paces KSM itself
(`advisor = adaptive`, 5,000 pages and 20 ms), but for its last row, which is flat out too, so that it can be held
against KSM's time. The finder has {WORKERS} workers and {SETTLE:.0f} s between its looks (60 as shipped).
"""


_SHIPPED = DedupSettings(allow_monitor_commands=True, advisor=ADAPTIVE)


@dataclass(frozen=True, slots=True)
class Way:
    """Who merges, and what of each VM."""

    name: str
    ksm: Mapping[str, str] | None = None  # settings of a KSM that nobody steers; None: memhint does
    settings: DedupSettings = _SHIPPED
    ranges: bool = False


FLAT = Way("KSM flat out", FLAT_OUT)
STOCK = Way("KSM, scan-time advisor", ADVISED)
WHOLE = Way("memhint, whole VMs")
PARTS = Way("memhint, finder and ranges", ranges=True)
PARTS_FLAT = Way(
    "memhint, finder and ranges, KSM flat out",
    settings=DedupSettings(
        allow_monitor_commands=True,
        advisor="none",
        target_scan_time=None,
        max_cpu=None,
        pages_to_scan=1_000_000,
        sleep_millisecs=0,
    ),
    ranges=True,
)
WAYS = (STOCK, FLAT, WHOLE, PARTS, PARTS_FLAT)


@dataclass(frozen=True, slots=True)
class Merged:
    """What one run came to."""

    seconds: float
    ksm_cpu: float
    finder_cpu: float
    pages: int  # merged, in the end
    marked: int  # bytes that KSM had to scan
    enough: bool  # whether it was as much as is asked; else the time was over

    @property
    def cpu(self) -> float:
        """Seconds in all."""
        return self.ksm_cpu + self.finder_cpu


def pages_of(vm: int, count: int, shared: float, prefixed: float, seed: int = 1) -> tuple[list[bytes], int]:
    """The pages of one VM, and how many of them every other VM has, too.

    :param shared: the part of them that all VMs have; ``prefixed`` the same with 128 bytes of zeros in front
    """
    own, common = random.Random(f"{seed} {vm}"), random.Random(seed)
    runs = -(-count // RUN)
    kinds = ["shared"] * round(runs * shared) + ["prefixed"] * round(runs * prefixed)
    kinds += ["own"] * (runs - len(kinds))
    random.Random(seed + 1).shuffle(kinds)
    pages: list[bytes] = []
    for kind in kinds:
        for _ in range(RUN):
            page = common.randbytes(PAGE)
            if kind == "own":
                page = own.randbytes(PAGE)
            elif kind == "prefixed":
                page = bytes(128) + page[128:]
            pages.append(page)
    pages = pages[:count]
    equal = sum(1 for at in range(count) if kinds[at // RUN] != "own")
    return pages, equal


def measure(scale: Scale, say: Say) -> Result:
    """Ten minutes at full size, most of them to fill memory."""
    no_other_guests()
    ksm_is_off()
    size = {Scale.SMOKE: 16 * MIB, Scale.SHORT: 48 * MIB}.get(scale, 192 * MIB)
    vms, runs = (3, 1) if scale is Scale.SMOKE else (VMS, {Scale.SHORT: 1}.get(scale, 3))
    patience = {Scale.SMOKE: 60.0, Scale.SHORT: 180.0}.get(scale, 600.0)
    sets = {"two thirds can merge": (1 / 3, 1 / 3), "5 % can merge": (0.05, 0.0)}
    ways = (FLAT, PARTS_FLAT) if scale is Scale.SMOKE else WAYS
    found: dict[str, dict[str, list[Merged]]] = {}
    program = emulator_program()
    for title, (shared, prefixed) in sets.items():
        with tempfile.TemporaryDirectory() as folder, paused_vms(program, Path(folder), vms, size) as started:
            can = 0
            for number, vm in enumerate(started):
                pages, equal = pages_of(number, size // PAGE, shared, prefixed)
                vm.fill(pages)
                can += equal
            found[title] = {}
            for way in ways:
                found[title][way.name] = [_run(way, started, can, patience, Path(folder)) for _ in range(runs)]
                last = found[title][way.name][-1]
                say(
                    f"{title}, {way.name}: {last.pages * PAGE // MIB} of {can * PAGE // MIB} MiB after "
                    f"{last.seconds:.1f} s, CPU {last.cpu:.2f} s, {mib(last.marked)} MiB scanned"
                )
    return Result(
        "dedup",
        scale,
        {"VMs": vms, "vm_mib": mib(size), "runs": runs, "workers": WORKERS, "compiled": PAGES is not None},
        tuple(_table(title, arms) for title, arms in found.items()),
        targets(found),
        (Plot("CPU until 90 % has merged", "s", column="cpu"),),
    )


def targets(found: Mapping[str, Mapping[str, Sequence[Merged]]]) -> tuple[Verdict, ...]:
    """memhint with ranges against flat-out KSM, the median of each. What did not merge enough misses them."""
    much, little = found.values()
    return (
        Verdict("of flat-out KSM's CPU per merged byte", GOAL_CPU, None, _ratio(much, PARTS_FLAT, lambda one: one.cpu)),
        Verdict("of flat-out KSM's time", GOAL_TIME, None, _ratio(much, PARTS_FLAT, lambda one: one.seconds)),
        Verdict(
            "of flat-out KSM's CPU where 5 % can merge",
            GOAL_CPU_LITTLE,
            None,
            _ratio(little, PARTS_FLAT, lambda one: one.cpu),
        ),
    )


def _ratio(arms: Mapping[str, Sequence[Merged]], way: Way, cost: Callable[[Merged], float]) -> float:
    def each(name: str) -> float:
        if not all(one.enough for one in arms[name]):
            return _NEVER
        return figure([cost(one) / max(1, one.pages) for one in arms[name]]).median

    base = each(FLAT.name)
    return _NEVER if base in (0.0, _NEVER) else min(_NEVER, each(way.name) / base)


def _run(way: Way, vms: Sequence[PausedVm], can: int, patience: float, folder: Path) -> Merged:
    for vm in vms:
        vm.monitor.set("/objects/mem", "merge", False)
    began, thread, finder_cpu = time.monotonic(), ksm.ksmd_seconds(), 0.0
    if way.ksm is not None:
        for vm in vms:
            vm.monitor.set("/objects/mem", "merge", True)
        with ksm.scanning(way.ksm):
            return _until(vms, can, began, thread, 0.0, patience)
    with ksm.kept():
        choices: Mapping[str, RangeChoice] = {}
        if way.ranges:
            found = _finder().round({vm.name: vm.process() for vm in vms}, threading.Event())
            assert found is not None  # nobody stops it
            choices, finder_cpu = found.ranges, found.round.cpu
        _let_in(way, vms, choices, folder)
        return _until(vms, can, began, thread, finder_cpu, patience)


def _finder() -> Finder:
    settings = FinderSettings(WORKERS, 100.0 * WORKERS, 1 << 40, SETTLE)
    return Finder(KernelRoot(), PAGE_SIZE, random.getrandbits(64), settings)


def _let_in(way: Way, vms: Sequence[PausedVm], choices: Mapping[str, RangeChoice], folder: Path) -> None:
    """One pass of the lever itself."""
    by_name = {vm.name: vm.monitor for vm in vms}
    store = open_store(f"sqlite:///{folder / 'marks.db'}", host="bench", lean=True)
    try:
        lever = DedupLever(
            KernelRoot(),
            store.marks,
            by_name.__getitem__,
            way.settings,
            "bench",
            lambda _: 0,
            time.time,
            lambda uuid, _: choices.get(uuid),
        )
        plan = DedupPlan(frozenset(by_name), "bench", {})
        outcome = lever.reconcile(
            plan, [vm.observed() for vm in vms], observe_host(KernelRoot(), time.time()), dry_run=False
        )
        bad = [str(one) for one in (*outcome.verdicts.values(), outcome.host) if not one.ok]
        if bad:
            raise RuntimeError("; ".join(bad))
        for mark in store.marks.all():
            store.marks.remove(mark.subject, mark.knob)
    finally:
        store.close()


def _until(
    vms: Sequence[PausedVm], can: int, began: float, thread: float, finder_cpu: float, patience: float
) -> Merged:
    while True:
        merged = sum((vm.process().ksm_merging or 0) // PAGE for vm in vms)
        elapsed = time.monotonic() - began
        if merged >= ENOUGH * can or elapsed > patience:
            break
        time.sleep(_LOOK)
    cpu = ksm.ksmd_seconds() - thread
    marked = sum(mergeable_bytes(KernelRoot(), vm.pid) for vm in vms)
    return Merged(elapsed, cpu, finder_cpu, merged, marked, merged >= ENOUGH * can)


def _table(title: str, arms: Mapping[str, Sequence[Merged]]) -> Table:
    columns = (
        Column("seconds", "until 90 % has merged", "s", 1),
        Column("cpu", "CPU", "s", 2),
        Column("finder", "of it the finder's", "s", 2),
        Column("merged", "merged", BYTES, 0),
        Column("marked", "that KSM scans", BYTES, 0),
    )
    rows = [
        Arm(
            name,
            {
                "seconds": figure([one.seconds for one in runs]) if all(one.enough for one in runs) else None,
                "cpu": figure([one.cpu for one in runs]),
                "finder": figure([one.finder_cpu for one in runs]),
                "merged": figure([float(one.pages * PAGE) for one in runs]),
                "marked": figure([float(one.marked) for one in runs]),
            },
        )
        for name, runs in arms.items()
    ]
    return Table(title, columns, rows)


BENCH = Bench("dedup", "Merging equal pages", _ABOUT, measure)
