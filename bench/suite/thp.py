"""Huge or near: what the kernel does for somebody who wants huge pages, where a node is full or in pieces."""

from __future__ import annotations

import statistics
import subprocess
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.figures import Figure, Verdict, figure
from bench.harness.bench import Bench, Say
from bench.harness.result import Arm, Column, Plot, Result, Table
from bench.harness.scale import Scale
from lab.sizes import MIB
from lab.virtual_host import KERNEL, Node, VirtualHost

GOAL_BEST = 1.05  # of the best arm, for each load
GOAL_MEAN = 1.0  # of the best single setting, over all loads
PERIOD = 0.2  # of the machine's own seconds, in each of which a processor executes a thousand million instructions
SOURCE = "Gorman, 2018"
CALL = 1800.0  # seconds that a load may take on a busy machine
_HERE = Path(__file__).resolve().parent


@dataclass(frozen=True, slots=True)
class ArmSetup:
    """One way in which a host can be set. ``defrag`` has the word for each that a load asks for, where it differs."""

    name: str
    stands_for: str
    near: bool = False  # zone_reclaim_mode: a node is reclaimed from before another one is asked
    defrag: Mapping[str, str] = field(default_factory=dict)
    period: float = 0.0  # of memhint's rule; 0 without
    fresh: bool = False  # the rule remembers nothing of what it saw on this host before


NEAR = ArmSetup("reclaim near", "vanilla", near=True)
STOCK = ArmSetup("as shipped", "relaxed")
DEFER = ArmSetup("nobody waits", "noretry", defrag={"always": "defer", "madvise": "defer"})
NEW = ArmSetup("memhint's rule, at first", "", period=PERIOD, fresh=True)
RULE = ArmSetup("memhint's rule, again", "", period=PERIOD)
FIXED = (NEAR, STOCK, DEFER)
RULES = (NEW, RULE)  # one after the other: the second remembers what the first has seen
SETTINGS = (*FIXED, *RULES)


@dataclass(frozen=True, slots=True)
class Load:
    """What is run. ``defrag`` is what the published test had."""

    name: str
    defrag: str
    threads: int = 0  # of usemem; 0: somebody wants huge pages in a host whose memory is in pieces
    advised: bool = False
    published: Mapping[str, tuple[float, ...]] = field(default_factory=dict)


# elapsed and system time in seconds
_USEMEM_1 = {"vanilla": (29.23, 14.16), "relaxed": (26.16, 12.35), "noretry": (33.81, 15.96)}
_USEMEM_3 = {"vanilla": (25.67, 15.14), "relaxed": (7.28, 9.83), "noretry": (8.49, 11.00)}
_USEMEM_4 = {"vanilla": (5.49, 9.88), "relaxed": (5.53, 9.85), "noretry": (5.46, 9.80)}
# microseconds of a fault for a small and for a huge page, percent of faults that were huge
_PLAIN = {"vanilla": (1471.95, 0.0, 0.0), "relaxed": (1515.64, 534.51, 1.18), "noretry": (1491.05, 0.0, 0.0)}
_ADVISED = {
    "vanilla": (6772.84, 2644.19, 45.48),
    "relaxed": (10256.30, 5314.17, 95.09),
    "noretry": (1574.45, 3517.89, 2.81),
}
_DEFRAG = {
    "vanilla": (2678.60, 1324.61, 0.90),
    "relaxed": (4442.14, 1460.08, 0.40),
    "noretry": (1640.15, 2358.23, 0.22),
}

USEMEM = (
    Load("usemem, 1 thread", "always", threads=1, published=_USEMEM_1),
    Load("usemem, 3 threads", "always", threads=3, published=_USEMEM_3),
    Load("usemem, 4 threads", "always", threads=4, published=_USEMEM_4),
)
FAULTS = (
    Load("in pieces, plain", "madvise", published=_PLAIN),
    Load("in pieces, advised", "madvise", advised=True, published=_ADVISED),
    Load("in pieces, defrag", "always", published=_DEFRAG),
)


@dataclass(frozen=True, slots=True)
class Size:
    """Of the machine and of what runs on it."""

    node: int  # bytes
    share: float  # of the memory that is free at the start: what usemem touches
    files: float  # the same of the files that are written
    touched: int  # MiB that somebody wants in huge pages
    fixed: Sequence[ArmSetup]
    loads: Sequence[Load]
    rounds: int


SIZES = {
    Scale.SMOKE: Size(256 * MIB, 0.4, 0.3, 16, (STOCK,), (USEMEM[0], FAULTS[1]), 1),
    Scale.SHORT: Size(256 * MIB, 0.8, 1.5, 160, FIXED, (*USEMEM, *FAULTS), 3),
    Scale.FULL: Size(512 * MIB, 0.8, 1.5, 320, FIXED, (*USEMEM, *FAULTS), 3),
}
Runs = Sequence[Mapping[str, Any]]
"""What one load in one setting came to, each time."""
Found = Mapping[str, Mapping[str, Runs]]
"""By load and setting."""

_ABOUT = f"""
After the tests that were published when the kernel's order was disputed (October 2018: may a huge page come from
another node, and how hard is it tried?). A machine with two nodes, a processor each. First threads touch 80 % of what
is free, while nothing else is there (`usemem`). Then files of 64 KiB are written a page at a time, half as many again
as memory holds, and two readers keep them in use; meanwhile somebody wants memory in huge pages: without advice, with
MADV_HUGEPAGE as QEMU gives it for every guest, and without advice under `defrag=always`.

Today's kernel ({KERNEL}) has none of the three orders that were compared then. It takes a near huge page if one is
there, without reclaiming; then, where `defrag` and advice let a fault wait, any huge page, with reclaim and
compaction; then small pages (commits 76e654cc91bb and cc638f329ef6, Linux 5.4 and 5.5). So the settings stand for the
kernels of then as far as they can: *as shipped* for `relaxed`; *nobody waits* (`defrag=defer`) for `noretry`: a near
huge page or none; and *reclaim near* (`zone_reclaim_mode` 1) for `vanilla`, which reclaimed from the near node.
*memhint's rule* begins as shipped and chooses `defer` once faults wait in vain ([thp.md](thp.md#the-host)), by its
own planner and lever: *at first* it knows nothing of the host, and *again* it remembers what it saw at first. Settings
take turns, every other time backwards.

The machine is emulated and its clock counts instructions, of both processors together: an instruction is a nanosecond.
So times are counts of instructions; where both processors wait for the disk, the clock goes on by itself. A fault is
told by the processor time of the thread that faults, without the readers, which share its processor. What the other
processor executes at that moment is in it: the kernel's own threads, and the rule's. In `in pieces, plain` nobody may
wait, so all settings do the same there: by how much they differ tells by how much luck does. What such a machine
cannot tell: remote memory is as fast as near memory, and a huge page saves no TLB miss; what either is worth is not in
these figures, only what it takes to get it. So by time alone nobody waiting wins wherever memory is in pieces. Threads
do not run side by side.

What `vanilla` lost in `usemem`, reclaiming and swapping on the near node while the far one was empty, is not there on
today's kernel in any setting: not a page is reclaimed.

The rule has a cycle every {PERIOD:g} s of that clock, as an agent has every 10 s, and between two of them looks ten
times at the waits alone while no node has many free blocks, as an agent does every second. So its own work weighs
{10 / PERIOD:g} times what it does on a host; it is in all of these figures.
"""


def measure(scale: Scale, say: Say) -> Result:
    """21 minutes on a machine whose two processors ten others wanted, too; less on a quiet one."""
    size = SIZES.get(scale, SIZES[Scale.FULL])
    with tempfile.TemporaryDirectory() as scratch:
        found = _run(size, compiled(Path(scratch)), say)
    advised = next(place for place, load in enumerate(size.loads) if load.advised)
    return Result(
        "thp",
        scale,
        {
            "kernel": KERNEL,
            "nodes": f"2 of {size.node // MIB} MiB, a CPU each",
            "usemem_percent": round(100 * size.share),
            "files_percent": round(100 * size.files),
            "touched_mib": size.touched,
            "instructions_a_second": "1e9, of both CPUs",
            "rounds": size.rounds,
        },
        tuple(_table(load, found[load.name]) for load in size.loads),
        targets(found),
        (Plot("Until advised memory was there", "million instructions", table=advised, column="time"),),
        (_deeds(found),),
    )


def compiled(into: Path) -> Path:
    """The program that makes the loads. Raises CalledProcessError."""
    program = into / "huge"
    source = _HERE.parent.parent / "lab" / "workload" / "huge.c"
    subprocess.run(["gcc", "-O2", "-Wall", "-static", "-pthread", "-s", "-o", str(program), str(source)], check=True)
    return program


def _run(size: Size, program: Path, say: Say) -> Found:
    """Every load in every setting, one load after another: what a load leaves behind meets all settings alike."""
    found: dict[str, dict[str, list[Mapping[str, Any]]]] = {}
    nodes = [Node(size.node, "0"), Node(size.node, "1")]
    inside, disk = [_HERE.parent / "inside_huge.py", program], {"files": 4 * size.node + 512 * MIB}
    with VirtualHost(inside, 2 * size.node, disk, nodes=nodes, counted=True) as host:
        memory = host.call("inside_huge.available")
        say(f"{memory} MiB are free of {2 * size.node // MIB}")
        for load in size.loads:
            if not load.threads and not host.call("inside_huge.alive"):
                host.call("inside_huge.fragment", files=int(memory * size.files * 16), deadline=CALL)
                _once(host, load, STOCK, size, memory)  # what the writing has left behind meets nobody
            found[load.name] = {one.name: [] for one in (*size.fixed, *RULES)}
            for turn in range(size.rounds):
                for setting in order(size.fixed, turn):
                    told = _once(host, load, setting, size, memory)
                    say(f"{load.name}, {setting.name}: {time_of(told) / 1e6:.1f} million instructions")
                    found[load.name][setting.name].append(told)
        if not host.call("inside_huge.alive"):
            raise RuntimeError("the readers have ended: nothing kept the memory in pieces")
    return found


def order(fixed: Sequence[ArmSetup], turn: int) -> list[ArmSetup]:
    """The settings as they take turns: every other time backwards, but for the rule, which first learns."""
    return [*RULES, *reversed(fixed)] if turn % 2 else [*fixed, *RULES]


def _once(host: VirtualHost, load: Load, setting: ArmSetup, size: Size, memory: int) -> Mapping[str, Any]:
    how: dict[str, Any] = {
        "setting": setting.defrag.get(load.defrag, load.defrag),
        "near": setting.near,
        "period": setting.period,
        "fresh": setting.fresh,
        "deadline": CALL,
    }
    if load.threads:
        told = host.call("inside_huge.usemem", threads=load.threads, mib=int(memory * size.share), **how)
    else:
        told = host.call("inside_huge.faults", mib=size.touched, advised=load.advised, **how)
    return dict(told)


def time_of(told: Mapping[str, Any]) -> float:
    """Nanoseconds until the memory was there; of processor time where others have the processors, too."""
    return float(told["elapsed"] if "elapsed" in told else told["huge_time"] + told["base_time"])


def targets(found: Found) -> tuple[Verdict, ...]:
    """The rule against the best setting of each load, and against the best single one over all; medians each."""
    names = {rule.name for rule in RULES}
    fixed = [name for name in next(iter(found.values())) if name not in names]
    verdicts = []
    for rule in RULES:
        worst, where = 0.0, ""
        for load, told in found.items():
            share = _median(told[rule.name]) / min(_median(told[name]) for name in fixed)
            worst, where = max((worst, where), (share, load))
        verdicts.append(
            Verdict(f"{rule.name}: time of the best setting, at the worst ({where})", GOAL_BEST, None, worst)
        )
    single = min(_mean(found, name) for name in fixed)
    what = "of the best single setting, geometric mean of all loads"
    return (
        *verdicts,
        *(Verdict(f"{rule.name}: {what}", GOAL_MEAN, None, _mean(found, rule.name) / single) for rule in RULES),
    )


def _median(runs: Runs) -> float:
    return max(1.0, statistics.median(time_of(one) for one in runs))


def _mean(found: Found, setting: str) -> float:
    return statistics.geometric_mean(_median(told[setting]) for told in found.values())


def _deeds(found: Found) -> str:
    """What the rule did to the host, of the first round."""
    told = [
        f"{load}: {'; '.join(runs[rule.name][0]['rule']) or 'nothing to do'}"
        for load, runs in found.items()
        for rule in RULES
    ]
    return f"What the rule did in the first round, at first and again. {'. '.join(told)}"


def _figure(values: Iterable[float | None]) -> Figure | None:
    """Of the runs that have one."""
    known = [one for one in values if one is not None]
    return figure(known) if known else None


def _part(part: float, whole: float, unit: float = 100.0) -> float | None:
    return unit * part / whole if whole else None


_TIME = (
    Column("time", "until it was there", "million instructions", 0),
    Column("of_first", "of the first row", "", 2),
)
_WORK = (
    Column("huge", "of the memory at the first touch, huge", "%", 1),
    Column("remote", "far", "%", 1),
    Column("scanned", "pages that compaction looked at", "thousand", 0),
    Column("waits", "waits for compaction", "", 0),
    Column("vain", "in vain", "", 0),
    Column("reclaimed", "pages reclaimed meanwhile", "thousand", 0),
)
_USEMEM_COLUMNS = (*_TIME, Column("system", "system time of the first row", "", 2), *_WORK)
_FAULT_COLUMNS = (
    *_TIME,
    Column("base_each", "a fault for a small page", "thousand instructions", 1),
    Column("huge_each", "a fault for a huge page", "thousand instructions", 0),
    Column("slowest", "the slowest fault", "million instructions", 1),
    Column("waited", "with what the readers did meanwhile", "million instructions", 0),
    *_WORK,
)


def _table(load: Load, told: Mapping[str, Runs]) -> Table:
    first = next(iter(told.values()))
    arms = []
    for setting in SETTINGS:
        if setting.name not in told:
            continue
        runs = told[setting.name]
        by_turn = list(zip(runs, first, strict=True))
        figures: dict[str, Figure | None] = {
            "time": _figure(time_of(one) / 1e6 for one in runs),
            "of_first": _figure(time_of(one) / max(1.0, time_of(other)) for one, other in by_turn),
            "huge": _figure(_part(512 * one["thp_fault_alloc"], one["local"] + one["remote"]) for one in runs),
            "remote": _figure(_part(one["remote"], one["local"] + one["remote"]) for one in runs),
            "scanned": _figure((one["compact_migrate_scanned"] + one["compact_free_scanned"]) / 1000 for one in runs),
            "waits": _figure(one["compact_stall"] for one in runs),
            "vain": _figure(one["compact_fail"] for one in runs),
            "reclaimed": _figure(one["pgsteal_direct"] / 1000 for one in runs),
        }
        if load.threads:
            figures["system"] = _figure(one["system"] / max(1, other["system"]) for one, other in by_turn)
        else:
            figures["huge"] = _figure(_part(512 * one["huge"], 512 * one["huge"] + one["base"]) for one in runs)
            figures["base_each"] = _figure(_part(one["base_time"], one["base"], 1e-3) for one in runs)
            figures["huge_each"] = _figure(_part(one["huge_time"], one["huge"], 1e-3) for one in runs)
            figures["slowest"] = _figure(one["slowest"] / 1e6 for one in runs)
            figures["waited"] = _figure(one["waited"] / 1e6 for one in runs)
        arms.append(Arm(setting.name, figures, _published(load, setting)))
    columns = _USEMEM_COLUMNS if load.threads else _FAULT_COLUMNS
    shown = [one for one in columns if any(arm.figures[one.key] is not None for arm in arms)]
    return Table(load.name, shown, arms, SOURCE)


def _published(load: Load, setting: ArmSetup) -> str:
    """The kernel that the setting stands for, against `vanilla` of then."""
    if setting.stands_for not in load.published:
        return ""
    vanilla, one = load.published["vanilla"], load.published[setting.stands_for]
    if load.threads:
        return f"{setting.stands_for}: elapsed {one[0] / vanilla[0]:.2f}, system {one[1] / vanilla[1]:.2f}"
    base = f"{setting.stands_for}: small {one[0] / vanilla[0]:.2f}"
    huge = f", huge {one[1] / vanilla[1]:.2f}" if vanilla[1] and one[1] else ""
    return f"{base}{huge}, {one[2]:.2f} % huge"


BENCH = Bench("thp", "Huge pages, near and far", _ABOUT, measure)
