"""Tiering: hot and cold memory over a fast node that holds half of it, and what accesses weigh, whoever lays it."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

from bench.figures import Figure, Verdict, figure
from bench.harness.bench import Bench, Say
from bench.harness.precondition import PreconditionFailed
from bench.harness.result import BYTES, Arm, Column, Curve, Plot, Result, Table
from bench.harness.scale import Scale
from bench.tiered import SLOW, AgentSample, Row, after, at_rest, moved, settled, together, weighted
from lab.sizes import MIB
from lab.virtual_host import KERNEL, Node, VirtualHost
from memhint.conf import active, host, tiering

GOAL_INTERLEAVE = 0.8  # of what accesses weigh where memory is interleaved
GOAL_ORACLE = 1.1  # of what they weigh where somebody knows what is hot
GOAL_SETTLED = 120.0  # seconds
GOAL_CPU = 1.0  # percent, while nothing moves
QUIET = 60.0  # seconds after GOAL_SETTLED: from here on nothing is to move any more
PERIOD = 10.0  # seconds of one cycle of an agent, as shipped
ROW = 10.0  # seconds
CALL = 3600.0  # seconds that an arm may take on a busy machine
NODES = (Node(512 * MIB, "0"), Node(512 * MIB))
FACTS = {"rate": 10_000, "cold": 50, "dense": 900}
_HERE = Path(__file__).resolve().parent.parent


@dataclass(frozen=True, slots=True)
class ArmSetup:
    """Who lays the memory. ``short``: nothing in it depends on time, so its phases need not last."""

    name: str
    place: str = ""
    agent: bool = False
    short: bool = False
    filled: bool = False  # the fast node has room for half of what the VMs have, and the kernel lays it there first


INTERLEAVE = ArmSetup("static interleave", place="interleave", short=True)
UNTOUCHED = ArmSetup("as the kernel laid it", short=True, filled=True)
MEMHINT = ArmSetup("memhint", agent=True, filled=True)
ORACLE = ArmSetup("an oracle", place="oracle", short=True)


@dataclass(frozen=True, slots=True)
class Phase:
    """How long it lasts, and how much of each VM is hot: MiB, together as much in each phase."""

    seconds: float
    hot: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Size:
    """How large the VMs are, and what they do. The first phase is for finding out; each later one is a move."""

    mib: int  # of each VM
    phases: Sequence[Phase]
    ways: Sequence[ArmSetup]

    @property
    def all(self) -> int:
        """MiB of all VMs."""
        return self.mib * len(self.phases[0].hot)


# No phase is a whole number of the agent's minutes, so that each move meets it at another moment. What is hot is three
# quarters of the fast node: there is less room beside it than the next hot part takes.
_ALL = (INTERLEAVE, UNTOUCHED, MEMHINT, ORACLE)
_SECONDS = (397, 331, 352, 373, 319, 341, 362, 383, 328, 347, 367, 391)
_TURNS = ((8, 40), (40, 8), (24, 24), (24, 24), (40, 8), (8, 40))


def _phases(moves: int, times: int = 1) -> tuple[Phase, ...]:
    hot = [tuple(times * one for one in _TURNS[place % len(_TURNS)]) for place in range(moves)]
    first = Phase(420, tuple(times * one for one in (40, 8)))
    return (first, *(Phase(_SECONDS[place % len(_SECONDS)], one) for place, one in enumerate(hot)))


SIZES = {
    Scale.SMOKE: Size(32, (Phase(150, (20, 4)), Phase(190, (4, 20))), (INTERLEAVE, MEMHINT, ORACLE)),
    Scale.SHORT: Size(64, _phases(5), _ALL),
    Scale.FULL: Size(128, _phases(12, 2), _ALL),
}

_ABOUT = f"""
Two processes that stand for VMs have hot and cold memory. The fast node has room for half of it; the rest lies on a
slow node without processors. 95 of 100 accesses go to hot memory, of which nine pages in ten are used; the others go to
256 KiB of cold memory, another place each 10 s. What is hot fills three quarters of the fast node. It moves from time
to time, all of it at once: to other memory of the same VM, or from one VM to the other.

Each access is counted by the page that it goes to, and each page's node is asked for every {ROW:g} s, so it is known
which share of the accesses goes to the slow node. One of them weighs {SLOW:g} times as much as one to the fast node:
that factor is assumed. *Static interleave* has every other page on the slow node for ever. *An oracle* is told what is
hot, and moves it at once and for nothing. *memhint* is the [tiering](tiering.md) lever and the reader of active memory
with the settings that are shipped, for VMs whose policy is `tiering=allow` and nothing else; it begins with what the
kernel laid on the fast node first. The kernel's own balancing is off beside it.

The machine is emulated, with one processor, and its clock counts instructions: an instruction is a nanosecond, and
while all wait the clock jumps on. So no time is shortened: minutes are minutes of that clock, on a busy machine as on a
quiet one, and a processor executes a thousand million instructions a second.

Weights are of the time from {GOAL_SETTLED:g} s after each move on, and *whole* ones of all time after the first phase.
Settled is from when on every {ROW:g} s weigh at most {GOAL_ORACLE:g} of what they weigh with the oracle in that phase;
the slowest of all moves counts. The agent's CPU is that of the reader, the lever and the kernel's monitor from
{GOAL_SETTLED + QUIET:g} s after each move on.
"""

_NOTES = (
    "Emulated memory is equally fast everywhere, and moving it takes no bandwidth from anybody: what a slow access "
    "costs is the assumed factor, what a move costs a VM that waits for it is not in these figures.",
    "Two VMs of this size are watched in ranges of 128 KiB; 500 ranges of a VM of 64 GiB are 128 MiB each. Hot memory "
    "comes in aligned pieces of 4 MiB here: what is hot in smaller pieces than a range cannot be told from the rest.",
    "The kernel is told to keep 4 MiB free by itself: as shipped it is 46 MiB of this machine, a twentieth, and the "
    "lever's 5 % would lie within that.",
    "The kernel's own balancing is no row. It scans a process once in a second of the time that the process runs, and "
    "these VMs run for about a thousandth of a second in each: within the minutes of a phase it hardly begins. Tried, "
    "numa_balancing 1 and 2 (with demotion) left an access at what it weighs as the kernel laid it.",
    "With more VMs each is looked at less often: the reader's share of a CPU is for all of them together.",
    "At 100 MiB/s, as shipped, two minutes move 12 GiB at most: a larger hot part takes as many minutes more.",
)


def measure(scale: Scale, say: Say) -> Result:
    """One virtual host; the ways of laying memory one after another."""
    size = SIZES.get(scale, SIZES[Scale.FULL])
    told = {}
    with tempfile.TemporaryDirectory() as folder:
        files = [
            _HERE / "inside_tiers.py",
            compiled(Path(folder)),
            _HERE.parent / "memhint" / "agent" / "active_reads.py",
        ]
        # the clock goes on at once while all wait, too
        words = ("-icount", "sleep=off")
        memory = sum(node.memory for node in NODES)
        with VirtualHost(files, memory, nodes=NODES, cpus=1, words=words, counted=True) as machine:
            for way in size.ways:
                say(f"{way.name}: begins, {sum(lasting(way, size)):.0f} s of its own clock")
                told[way.name] = ArmResult.of(way, size, _run(machine, way, size))
                say(f"{way.name}: {told[way.name]}")
    return result(scale, size, told)


def compiled(into: Path) -> Path:
    """The program that plays a VM. Raises PreconditionFailed."""
    program = into / "tiering"
    source = _HERE / "guest" / "tiering.c"
    command = ["gcc", "-O2", "-Wall", "-Wextra", "-static", "-s", "-o", str(program), str(source)]
    done = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise PreconditionFailed(f"tiering.c does not compile; install libc6-dev\n{done.stderr}")
    return program


def shipped() -> dict[str, dict[str, Any]]:
    """The settings of an agent whose operator has set nothing but a source, as the program inside takes them."""
    found = {
        group.GROUP: {opt.dest: opt.default for opt in group.OPTS if opt.default is not None}
        for group in (active, host, tiering)
    }
    lever = found[tiering.GROUP]
    lever["rate"] = lever.pop("rate_mib") * MIB
    wanted = {"active": ("interval", "regions", "cpu_percent"), "host": ("node_reserve_percent",)}
    some = {group: {name: found[group][name] for name in names} for group, names in wanted.items()}
    return {"DEFAULT": {"period": PERIOD}, "tiering": lever, **some}


def _run(
    machine: VirtualHost, way: ArmSetup, size: Size, settings: Mapping[str, Any] | None = None
) -> Mapping[str, Any]:
    seconds, hots = lasting(way, size), zip(*(phase.hot for phase in size.phases), strict=True)
    vms = {f"vm{place}": list(zip(seconds, hot, strict=True)) for place, hot in enumerate(hots)}
    fast, hot = size.all // 2, sum(size.phases[0].hot)
    told: Mapping[str, Any] = machine.call(
        "inside_tiers.run",
        deadline=CALL,
        arm=way.place,
        vms=vms,
        mib=size.mib,
        fast_mib=fast if way.filled else 0,
        facts={**FACTS, "spare": (fast - hot) // len(vms)},
        row=ROW,
        lever=(settings or shipped()) if way.agent else None,
    )
    return told


def lasting(way: ArmSetup, size: Size) -> list[float]:
    """Seconds of each phase."""
    return [min(60.0, phase.seconds) if way.short else phase.seconds for phase in size.phases]


@dataclass(frozen=True, slots=True)
class ArmResult:
    """What came of one way."""

    rows: Sequence[Row]
    looks: Sequence[AgentSample]
    began: Sequence[float]  # of each phase, seconds; in the end, when the last one ended
    short: bool

    @classmethod
    def of(cls, way: ArmSetup, size: Size, told: Mapping[str, Any]) -> ArmResult:
        """As the program inside tells it. Raises ValueError where it makes no sense."""
        each = [[Row(one[0] / 1000, *one[1:]) for one in rows] for rows in told["rows"].values()]
        began = [0.0, *accumulate(lasting(way, size))]
        return cls(together(each), [AgentSample(*one) for one in told["looks"]], began, way.short)

    def phase(self, number: int) -> list[Row]:
        """The rows of one phase."""
        return [row for row in self.rows if row.phase == number]

    @property
    def moves(self) -> range:
        """The phases that something moved for."""
        return range(1, len(self.began) - 1)

    @property
    def weight(self) -> float:
        """Of an access, from when on everything is to be settled."""
        rest = 0.0 if self.short else GOAL_SETTLED
        return weighted([row for row in after(self.rows, self.began, rest) if row.phase in self.moves])

    @property
    def whole(self) -> float:
        """Of an access, of all time after the first phase."""
        return weighted([row for row in self.rows if row.phase in self.moves])

    @property
    def on_fast(self) -> int:
        """Bytes, at most, from when on everything is to be settled."""
        return max(row.on_fast for row in after(self.rows, self.began, 0.0 if self.short else GOAL_SETTLED))

    def settled(self, oracle: ArmResult) -> list[float | None]:
        """Seconds after each move."""
        return [
            settled(self.phase(number), self.began[number], GOAL_ORACLE * weighted(oracle.phase(number)))
            for number in self.moves
        ]

    def slowest(self, oracle: ArmResult) -> float:
        """The longest of them; of a move after which it never settled, how long that phase was."""
        each = self.settled(oracle)
        lasted = [self.began[number + 1] - self.began[number] for number in self.moves]
        return max(most if one is None else one for one, most in zip(each, lasted, strict=True))

    def cpu(self) -> list[float]:
        """Percent of a CPU while nothing moves, after each move."""
        rest = GOAL_SETTLED + QUIET
        each = (at_rest(self.looks, self.began[number] + rest, self.began[number + 1]) for number in self.moves)
        return [one for one in each if one is not None]

    def moved(self) -> list[int]:
        """Bytes after each move."""
        return [moved(self.looks, self.began[number], self.began[number + 1]) for number in self.moves]

    def __str__(self) -> str:
        return f"an access weighs {self.weight:.3f}, of all time {self.whole:.3f}"


def targets(told: Mapping[str, ArmResult]) -> tuple[Verdict, ...]:
    """Memhint against those that never look, and against somebody who knows."""
    ours, oracle = told[MEMHINT.name], told[ORACLE.name]
    cpu = ours.cpu()
    return (
        Verdict(
            "weight of an access, times that of static interleave",
            GOAL_INTERLEAVE,
            None,
            ours.weight / told[INTERLEAVE.name].weight,
        ),
        Verdict("the same, times that of an oracle", GOAL_ORACLE, None, ours.weight / oracle.weight),
        Verdict("seconds until the slowest move has settled", GOAL_SETTLED, None, ours.slowest(oracle)),
        *((Verdict("percent of a CPU while nothing moves", GOAL_CPU, None, max(cpu)),) if cpu else ()),
    )


_COLUMNS = (
    Column("weight", "weight of an access", "", 3),
    Column("interleave", "of static interleave", "", 2),
    Column("oracle", "of an oracle", "", 2),
    Column("whole", "whole", "", 3),
    Column("settled", "settled after a move", "s", 0),
    Column("fast", "on the fast node at most", BYTES, 0),
    Column("moved", "moved after a move", BYTES, 0),
    Column("cpu", "agent's CPU while nothing moves", "%", 2),
)


def result(scale: Scale, size: Size, told: Mapping[str, ArmResult]) -> Result:
    """What the ways came to, side by side."""
    oracle, interleave = told[ORACLE.name], told[INTERLEAVE.name]
    arms = []
    for way in size.ways:
        one = told[way.name]
        lasted = [after_move for after_move in one.settled(oracle) if after_move is not None]
        watched = not way.short
        figures: dict[str, Figure | None] = {
            "weight": figure([one.weight]),
            "interleave": figure([one.weight / interleave.weight]),
            "oracle": figure([one.weight / oracle.weight]),
            "whole": figure([one.whole]),
            "settled": figure(lasted) if watched and len(lasted) == len(one.moves) else None,
            "fast": figure([one.on_fast]),
            "moved": figure(one.moved()) if watched else None,
            "cpu": figure(cpu) if way.agent and (cpu := one.cpu()) else None,
        }
        arms.append(Arm(way.name, figures))
    shown = [column for column in _COLUMNS if any(arm.figures[column.key] is not None for arm in arms)]
    curves = [Curve(way.name, _curve(told[way.name])) for way in size.ways if not way.short]
    return Result(
        "tiering",
        scale,
        {
            "kernel": KERNEL,
            "nodes": f"2 of {NODES[0].memory // MIB} MiB, one with a CPU",
            "vms": f"{len(size.phases[0].hot)} of {size.mib} MiB",
            "hot_mib": sum(size.phases[0].hot),
            "fast_mib": size.all // 2,
            "slow_weight": SLOW,
            "moves": len(size.phases) - 1,
            "runs": 1,
        },
        (Table("Accesses", shown, arms),),
        targets(told),
        (Plot("Weight of an access", "times an access to the fast node", "s", curves),),
        _NOTES,
    )


def _curve(told: ArmResult) -> list[tuple[float, float]]:
    """A point for each 20 s: single rows hold a place of cold memory or none."""
    some = [told.rows[at : at + 2] for at in range(0, len(told.rows), 2)]
    return [(rows[-1].at, weighted(rows)) for rows in some]


BENCH = Bench("tiering", "Hot and cold memory on fast and slow nodes", _ABOUT, measure)
