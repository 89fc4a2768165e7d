"""Migrate: moving memory between two NUMA nodes, in the ways that the founding series compared."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from bench.figures import Figure, Verdict, figure
from bench.harness.bench import Bench, Say
from bench.harness.precondition import PreconditionFailed
from bench.harness.result import Arm, Column, Plot, Result, Table
from bench.harness.scale import Scale
from bench.total import compiled_plugin, counted, counting
from lab.virtual_host import KERNEL, Node, VirtualHost
from memhint.objects.units import MIB

GOAL_BATCH = 2.7  # times one page per call, of pages of 4 KiB
GOAL_EXCHANGE = 1.6  # times two migrations
GOAL_THREADS = 1.6  # times one thread, with two
PAGE = 4096
DEADLINE = 1800.0  # seconds of one call inside
NODES = (Node(640 * MIB, "0"), Node(384 * MIB))
HERE = Path(__file__).resolve().parent.parent / "guest"

_ABOUT = """
What moves memory for [tiering](tiering.md) is `move_pages`; the founding series of 2019 made it faster in the kernel,
by batches, threads and an exchange of two sets of pages. Its tables are made again here with what a kernel has by now
(6.12: batches since 6.3, no threads, no exchange) and with what a program can do: many pages in one call, several
threads on ranges of their own, and an exchange as two moves, one behind the other or both at once. A program in a
virtual host with two NUMA nodes moves small and huge pages to the other node and back; the ways take turns. Each page
is checked to have gone where it was to go, and in the end to hold what was written to it.

Speeds are shown as ratios to the first row of their table, round by round. Instructions are counted in a virtual host
of one processor, those of a run of several rounds without those of a run of one; each repetition of a string
instruction counts, and so does what else the guest does meanwhile: with few pages that shows.

Each call, whatever it moves, first has every processor hand over the pages that it keeps back, and waits for that
(`lru_cache_disable`). With one page a call this is most of the time here, where a processor that rests has to be
emulated first.
"""

_NOTES = (
    "An emulated processor has no caches, no memory controller and no slow node: how fast either is, and whether "
    "threads wait for bandwidth, cannot be told here. What can be told is how much work a page costs beyond the copy.",
    "A batch of the kernel is 512 pages, which is one huge page: 16 huge pages in one call are 16 batches.",
    "Debian's kernel clears a page before it copies another one into it (init_on_alloc): 4096 instructions of each "
    "page are that, and 4096 the copy.",
    "The kernel has no exchange: both at once is two threads, one down and one up, and needs room for what is moving.",
    "Two processors of the machine emulate two of the virtual host: four threads have two to run on, and other work on "
    "the machine takes from either.",
)


@dataclass(frozen=True, slots=True)
class ArmSetup:
    """One way to move memory, as the program inside is told it, and what the founding table gives for its like."""

    name: str
    words: str
    published: str = ""


ONE_SMALL = ArmSetup("single 4 KiB pages", "small:1:1", "0.312 GB/s, 1.0")
MANY_SMALL = ArmSetup("512 x 4 KiB, one call", "small:512:1", "0.854 GB/s, 2.7")
SMALL = (
    ONE_SMALL,
    MANY_SMALL,
    ArmSetup("512 x 4 KiB, 2 threads", "small:512:2", "1.240 GB/s (exchange), 4.0"),
    ArmSetup("512 x 4 KiB, 4 threads", "small:512:4", "1.255 GB/s (exchange), 4.0"),
)
ONE_HUGE = ArmSetup("single 2 MiB pages", "huge:1:1", "2.387 GB/s, 1.0")
MANY_HUGE = ArmSetup("16 x 2 MiB, one call", "huge:16:1")
TWO_THREADS = ArmSetup("16 x 2 MiB, 2 threads", "huge:16:2", "4.138 GB/s, 1.7")
HUGE = (ONE_HUGE, MANY_HUGE, TWO_THREADS, ArmSetup("16 x 2 MiB, 4 threads", "huge:16:4", "7.382 GB/s, 3.1"))
TWO_MOVES = ArmSetup("down, then up: two migrations", "swap:16:1", "2.387 GB/s, 1.0 (one migration)")
AT_ONCE = ArmSetup("down and up at once, 2 threads", "swap:16:2", "4.135 GB/s, 1.7 (1-thread exchange)")
EXCHANGE = (TWO_MOVES, AT_ONCE)
TABLES = (("Pages of 4 KiB", SMALL), ("Huge pages", HUGE), ("An exchange of two sets of 64 MiB", EXCHANGE))
COUNTED = (ONE_SMALL, MANY_SMALL, ONE_HUGE, MANY_HUGE)


@dataclass(frozen=True, slots=True)
class Size:
    """How much is moved, and how often. Small pages are few: one call for each takes milliseconds here."""

    rounds: int
    small: int  # MiB
    huge: int  # MiB
    counts: int  # times that a way's instructions are counted
    counted: int  # rounds whose instructions are counted


SIZES = {
    Scale.SMOKE: Size(1, 1, 32, 1, 2),
    Scale.SHORT: Size(7, 2, 64, 3, 8),
    Scale.FULL: Size(31, 8, 128, 5, 16),
}


def measure(scale: Scale, say: Say) -> Result:
    """Two virtual hosts, one behind the other."""
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "migrate"
        command = ["gcc", "-O2", "-Wall", "-Wextra", "-static", "-pthread", "-o", str(program), str(HERE / "migrate.c")]
        done = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False)
        if done.returncode:
            raise PreconditionFailed(f"migrate.c does not compile; install libc6-dev\n{done.stderr}")
        size = SIZES.get(scale, SIZES[Scale.FULL])
        speeds = _speeds(program, size, say)
        instructions = _instructions(program, size, Path(folder), say)
    tables = [_table(title, ways, speeds, instructions) for title, ways in TABLES]
    return Result(
        "migrate",
        scale,
        {
            "rounds": size.rounds,
            "nodes_mib": [node.memory // MIB for node in NODES],
            "kernel": f"Debian's {KERNEL}",
            "small_mib": size.small,
            "huge_mib": size.huge,
            "counted_rounds": size.counted,
        },
        tables,
        targets(speeds),
        (Plot("Times the speed of one page per call", "ratio", table=1, column="ratio"),),
        _NOTES,
    )


def targets(speeds: dict[str, list[float]]) -> tuple[Verdict, ...]:
    """The founding ratios."""
    return (
        Verdict(
            "pages of 4 KiB in batches, times one per call", None, GOAL_BATCH, _middle(MANY_SMALL, ONE_SMALL, speeds)
        ),
        Verdict("down and up at once, times two migrations", None, GOAL_EXCHANGE, _middle(AT_ONCE, TWO_MOVES, speeds)),
        Verdict("two threads on huge pages, times one", None, GOAL_THREADS, _middle(TWO_THREADS, MANY_HUGE, speeds)),
    )


def _middle(way: ArmSetup, base: ArmSetup, speeds: dict[str, list[float]]) -> float:
    return median(_ratios(way, base, speeds))


def _ratios(way: ArmSetup, base: ArmSetup, speeds: dict[str, list[float]]) -> list[float]:
    """Round by round, so that what the machine did meanwhile counts for both."""
    return [one / other for one, other in zip(speeds[way.words], speeds[base.words], strict=True)]


def _table(
    title: str, ways: Sequence[ArmSetup], speeds: dict[str, list[float]], instructions: dict[str, Figure]
) -> Table:
    columns = [Column("ratio", "times the first row's speed", digits=2), Column("speed", "GB/s", digits=3)]
    if any(way.words in instructions for way in ways):
        columns.append(Column("instructions", "guest instructions per 4 KiB", digits=0))
    arms = [
        Arm(
            way.name,
            {
                "ratio": figure(_ratios(way, ways[0], speeds)),
                "speed": figure(speeds[way.words]),
                "instructions": instructions.get(way.words),
            },
            way.published,
        )
        for way in ways
    ]
    return Table(title, columns, arms, "published, and times its first row")


def _speeds(program: Path, size: Size, say: Say) -> dict[str, list[float]]:
    """GB/s of each way in each round."""
    files, nodes = [HERE / "migrate_inside.py", program], (Node(NODES[0].memory, "0-1"), NODES[1])
    words = [way.words for _, ways in TABLES for way in ways]
    found: dict[str, list[float]] = {one: [] for one in words}
    with VirtualHost(files, sum(node.memory for node in nodes), nodes=nodes) as host:
        for one in range(size.rounds):
            say(f"round {one + 1} of {size.rounds}")
            for way, moved, took in _run(host, size, 1, words):
                found[way].append(moved / took)
    return found


def _run(host: VirtualHost, size: Size, rounds: int, words: Sequence[str]) -> list[tuple[str, int, int]]:
    """ArmSetup, bytes and nanoseconds of each way in each round."""
    rows = host.call(
        "migrate_inside.run", deadline=DEADLINE, rounds=rounds, small=size.small, huge=size.huge, arms=list(words)
    )
    return [(way, moved, took) for way, moved, took in rows]


def _instructions(program: Path, size: Size, folder: Path, say: Say) -> dict[str, Figure]:
    """Guest instructions per 4 KiB of each counted way. The clock goes by them, so that ticks are as many each time."""
    files, counter = [HERE / "migrate_inside.py", program], folder / "counter"
    words = ("-plugin", counting(compiled_plugin(folder), counter))
    memory = sum(node.memory for node in NODES)
    found = {}
    with VirtualHost(files, memory, nodes=NODES, cpus=1, words=words, counted=True) as host:

        def taken(way: ArmSetup, rounds: int) -> tuple[int, int]:
            before = counted(counter)
            rows = _run(host, size, rounds, [way.words])
            return counted(counter) - before, sum(moved for _, moved, _ in rows)

        taken(COUNTED[0], 1)  # what the first call loads is no part of any
        for way in COUNTED:
            say(f"instructions of {way.name}")
            costs = []
            for _ in range(size.counts):
                one, more = taken(way, 1), taken(way, 1 + size.counted)
                costs.append((more[0] - one[0]) / ((more[1] - one[1]) / PAGE))
            found[way.words] = figure(costs)
    return found


BENCH = Bench("migrate", "Memory between nodes", _ABOUT, measure)
