"""Dedup: how long it takes, and how much CPU, until what can merge has merged."""

from __future__ import annotations

import random
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from bench import ksm
from bench.figures import Verdict, figure
from bench.harness.bench import Bench, Say
from bench.harness.precondition import ksm_is_off, no_other_guests
from bench.harness.result import BYTES, Arm, Column, Plot, Result, Table
from bench.harness.scale import Scale
from bench.host_ksm import CPUS, THREADS, HostRun, host_table, in_virtual_host, ratio
from bench.merging_data import PAGE, RUN, pages_of
from bench.paused_vms import PausedVm, paused_vms
from lab.patched import emulator_program
from memhint.kernel.host import observe_host, read_memory
from memhint.kernel.ksm import read_ksm
from memhint.kernel.native import PAGES
from memhint.kernel.root import PAGE_SIZE, KernelRoot
from memhint.kernel.smaps import mergeable_bytes
from memhint.levers.dedup import ADAPTIVE, DedupLever, DedupSettings
from memhint.objects.merge_ranges import RangeChoice
from memhint.objects.units import MIB, mib
from memhint.pages.finder import Finder, FinderSettings
from memhint.planner.dedup import DedupPlan
from memhint.planner.dedup_estimate import KsmPace, estimate
from memhint.store.database import open_store

VMS = 12
WORKERS = 2
SETTLE = 0.1  # seconds between the finder's two looks at a page: about as long as KSM takes to come by again
ENOUGH = 0.9  # of what can merge
GOAL_CPU = 0.5  # of flat-out KSM's
GOAL_TIME = 0.6
GOAL_CPU_LITTLE = 0.2  # where 5 % can merge
GOAL_WORKERS = 0.6  # of one thread's time
GOAL_ESTIMATE = 0.02  # of what was really saved
FLAT_OUT = {"use_zero_pages": "1", "advisor_mode": "none", "pages_to_scan": "1000000", "sleep_millisecs": "0"}
ADVISED = {"use_zero_pages": "1", "advisor_mode": "scan-time"}
_LOOK = 0.02
_SCANS = 3
_NEVER = 1000.0  # times as much: of what did not merge enough in its time

_ABOUT = f"""
The founding test, scaled: {VMS} VMs, each with three kinds of data in equal parts: pages of its own, pages that all
VMs have, and pages that all VMs have and whose first 128 bytes are zeros, so that a compare looks further. They lie in
turns of {RUN} pages. In the second data set 5 % of each VM can merge, in pages that all VMs have.

Measured is from the moment when merging may begin until {100 * ENOUGH:.0f} % of what can merge has merged, and the CPU
that KSM's thread and memhint's finder took until then. The VMs are QEMUs that run no guest: their memory is filled from
the host, as emulated guests would take the CPU that is measured. `flat out` is KSM as the founding test configured it:
no sleep, a million pages at once. `scan-time advisor` is Linux' own pace with its defaults. memhint paces KSM itself
(`advisor = adaptive`, 5,000 pages and 20 ms), but for its last two rows, which are flat out too, so that they can be
held against KSM's time. The finder has {WORKERS} workers and {SETTLE} s between its looks at a page, about as long as
flat-out KSM takes to come by again (60 s as shipped). In the last row the ranges are known before, and the finder is
neither in the time nor in the CPU: no finder can do better with this kernel's KSM.

What the finder estimates is held against what KSM has saved when it has been over the ranges three times more.
"""


_ON_THE_KERNEL_FOR_HOSTS = (
    "In the last table are processes on the [kernel for hosts](../kernel/README.md#the-series-for-hosts), whose KSM "
    f"can have several threads: {THREADS[0]}, the default, {THREADS[1]} and {THREADS[2]}. It runs in a virtual host "
    f"with {CPUS} processors, emulated by as many threads of this machine: its seconds are no real host's, and each "
    "row is held against one thread in the same turn only. There is no finder in it."
)

_SHIPPED = DedupSettings(allow_monitor_commands=True, advisor=ADAPTIVE)


@dataclass(frozen=True, slots=True)
class ArmSetup:
    """Who merges, and what of each VM."""

    name: str
    ksm: Mapping[str, str] | None = None  # settings of a KSM that nobody steers; None: memhint does
    settings: DedupSettings = _SHIPPED
    ranges: bool = False
    known: bool = False  # the ranges, before the clock begins


FLAT = ArmSetup("KSM flat out", FLAT_OUT)
STOCK = ArmSetup("KSM, scan-time advisor", ADVISED)
WHOLE = ArmSetup("memhint, whole VMs")
PARTS = ArmSetup("memhint, finder and ranges", ranges=True)
PARTS_FLAT = ArmSetup(
    "memhint, finder and ranges, KSM flat out",
    settings=ksm.NO_PACE,
    ranges=True,
)
KNOWN_FLAT = replace(PARTS_FLAT, name="the same, ranges known before", known=True)
WAYS = (STOCK, FLAT, WHOLE, PARTS, PARTS_FLAT, KNOWN_FLAT)
ONCE = (STOCK,)  # it takes longer than all others together


@dataclass(frozen=True, slots=True)
class Merged:
    """What one run came to."""

    seconds: float
    ksm_cpu: float
    finder_cpu: float
    pages: int  # merged, in the end
    marked: int  # bytes that KSM had to scan
    enough: bool  # whether it was as much as is asked; else the time was over
    estimated: int = 0  # bytes, by the finder; 0 without one
    saved: int = 0  # bytes, when nothing more merged

    @property
    def cpu(self) -> float:
        """Seconds in all."""
        return self.ksm_cpu + self.finder_cpu


def measure(scale: Scale, say: Say) -> Result:
    """Ten minutes at full size, most of them to fill memory."""
    no_other_guests()
    ksm_is_off()
    size = {Scale.SMOKE: 16 * MIB, Scale.SHORT: 64 * MIB}.get(scale, 192 * MIB)
    vms, runs = (3, 1) if scale is Scale.SMOKE else (VMS, 3)
    patience = {Scale.SMOKE: 60.0, Scale.SHORT: 60.0}.get(scale, 600.0)
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
                found[title][way.name] = [
                    _run(way, started, can, patience, Path(folder)) for _ in range(1 if way in ONCE else runs)
                ]
                last = found[title][way.name][-1]
                say(
                    f"{title}, {way.name}: {last.pages * PAGE // MIB} of {can * PAGE // MIB} MiB after "
                    f"{last.seconds:.1f} s, CPU {last.cpu:.2f} s, {mib(last.marked)} MiB scanned"
                )
    hosts = _on_the_kernel_for_hosts(scale, patience, say)
    return Result(
        "dedup",
        scale,
        {"VMs": vms, "vm_mib": mib(size), "runs": runs, "workers": WORKERS, "compiled": PAGES is not None},
        (*(_table(title, arms) for title, arms in found.items()), host_table(hosts)),
        targets(found, hosts),
        (Plot("CPU until 90 % has merged", "s", column="cpu"),),
        (_ON_THE_KERNEL_FOR_HOSTS,),
    )


def _on_the_kernel_for_hosts(scale: Scale, patience: float, say: Say) -> list[HostRun]:
    vms, size, turns = {Scale.SMOKE: (3, 2 * MIB, 1), Scale.SHORT: (VMS, 8 * MIB, 5)}.get(scale, (VMS, 16 * MIB, 5))
    found = in_virtual_host(vms, size, turns, ENOUGH, patience)
    for one in found:
        say(
            f"kernel for hosts, {one.threads} threads{', ranges known before' if one.ranges else ''}: "
            f"{one.merged * PAGE // MIB} MiB after {one.seconds:.1f} s, CPU {one.cpu:.2f} s"
        )
    return found


def targets(found: Mapping[str, Mapping[str, Sequence[Merged]]], hosts: Sequence[HostRun]) -> tuple[Verdict, ...]:
    """memhint with ranges against flat-out KSM, the median of each. What did not merge enough misses them.

    All stop once as much has merged. Who has merged more than that when it is looked at is given nothing for it, but
    where the target is of a byte.
    """
    much, little = found.values()
    off = [
        abs(one.estimated - one.saved) / max(1, one.saved)
        for arms in found.values()
        for way in WAYS
        if way.ranges
        for one in arms.get(way.name, ())  # not each is there at the smallest scale
    ]
    return (
        Verdict(
            "of flat-out KSM's CPU per merged byte",
            GOAL_CPU,
            None,
            _ratio(much, PARTS_FLAT, lambda one: one.cpu / max(1, one.pages)),
        ),
        Verdict("of flat-out KSM's time", GOAL_TIME, None, _ratio(much, PARTS_FLAT, lambda one: one.seconds)),
        Verdict(
            "of flat-out KSM's CPU where 5 % can merge",
            GOAL_CPU_LITTLE,
            None,
            _ratio(little, PARTS_FLAT, lambda one: one.cpu),
        ),
        Verdict(
            "of one thread's time with two, on the kernel for hosts", GOAL_WORKERS, None, ratio(hosts, 2) or _NEVER
        ),
        Verdict("the estimate is off by, at the most, of what was saved", GOAL_ESTIMATE, None, max(off)),
    )


def _ratio(arms: Mapping[str, Sequence[Merged]], way: ArmSetup, cost: Callable[[Merged], float]) -> float:
    def each(name: str) -> float:
        if not all(one.enough for one in arms[name]):
            return _NEVER
        return figure([cost(one) for one in arms[name]]).median

    base = each(FLAT.name)
    return _NEVER if base in (0.0, _NEVER) else min(_NEVER, each(way.name) / base)


def _run(way: ArmSetup, vms: Sequence[PausedVm], can: int, patience: float, folder: Path) -> Merged:
    for vm in vms:
        vm.monitor.set("/objects/mem", "merge", False)
    if way.ksm is not None:
        began, thread = time.monotonic(), ksm.ksmd_seconds()
        for vm in vms:
            vm.monitor.set("/objects/mem", "merge", True)
        with ksm.scanning(way.ksm):
            return _until(vms, can, began, thread, 0.0, patience)
    with ksm.kept(), _Levers(way, vms, folder) as levers:
        choices: Mapping[str, RangeChoice] = {}
        finder_cpu, estimated = 0.0, 0
        began, thread = time.monotonic(), ksm.ksmd_seconds()
        if way.ranges:
            found = _finder().round({vm.name: vm.process() for vm in vms}, threading.Event())
            assert found is not None  # nobody stops it
            choices, finder_cpu = found.ranges, found.round.cpu
            estimated = estimate(found.samples, "bench", PAGE_SIZE, KsmPace())[0].saving
        if way.known:
            began, thread, finder_cpu = time.monotonic(), ksm.ksmd_seconds(), 0.0
        levers.let_in(choices)
        merged = _until(vms, can, began, thread, finder_cpu, patience)
        return replace(merged, estimated=estimated, saved=_saved(patience)) if way.ranges else merged


def _saved(patience: float) -> int:
    """Bytes that KSM has saved on this host, when it has been over everything some times more."""
    until, over = read_ksm(KernelRoot()).full_scans + _SCANS, time.monotonic() + patience
    while (seen := read_ksm(KernelRoot())).full_scans < until and time.monotonic() < over:
        time.sleep(_LOOK)
    return seen.saving(PAGE_SIZE)


def _finder() -> Finder:
    settings = FinderSettings(WORKERS, 100.0 * WORKERS, 1 << 40, SETTLE)
    return Finder(KernelRoot(), PAGE_SIZE, random.getrandbits(64), settings)


class _Levers:
    """The lever itself, over these VMs. A context manager: its marks are gone with it."""

    def __init__(self, way: ArmSetup, vms: Sequence[PausedVm], folder: Path) -> None:
        self._vms = vms
        self._choices: Mapping[str, RangeChoice] = {}
        self._by_name = {vm.name: vm.monitor for vm in vms}
        self._store = open_store(f"sqlite:///{folder / 'marks.db'}", host="bench")
        self._lever = DedupLever(
            KernelRoot(),
            self._store.marks,
            self._by_name.__getitem__,
            way.settings,
            "bench",
            lambda _: 0,
            lambda: read_memory(KernelRoot()).available,
            time.time,
            lambda uuid, _: self._choices.get(uuid),
        )

    def __enter__(self) -> _Levers:
        return self

    def let_in(self, choices: Mapping[str, RangeChoice]) -> None:
        """One pass."""
        self._choices = choices
        plan = DedupPlan(frozenset(self._by_name), "bench", {})
        seen = observe_host(KernelRoot(), time.time())
        outcome = self._lever.reconcile(plan, [vm.observed() for vm in self._vms], seen, dry_run=False)
        bad = [str(one) for one in (*outcome.verdicts.values(), outcome.host) if not one.ok]
        if bad:
            raise RuntimeError("; ".join(bad))

    def __exit__(self, *_: object) -> None:
        for mark in self._store.marks.all():
            self._store.marks.remove(mark.subject, mark.knob)
        self._store.close()


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
        Column("estimated", "estimated", BYTES, 0),
        Column("saved", "then saved", BYTES, 0),
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
                "estimated": figure([float(one.estimated) for one in runs]) if runs[0].estimated else None,
                "saved": figure([float(one.saved) for one in runs]) if runs[0].estimated else None,
            },
        )
        for name, runs in arms.items()
    ]
    return Table(title, columns, rows)


BENCH = Bench("dedup", "Merging equal pages", _ABOUT, measure)
