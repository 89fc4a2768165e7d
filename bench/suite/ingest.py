"""What the reports of a fleet take: backlog, CPU and memory of each process, and how fast the API answers meanwhile."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bench.figures import Figure, Verdict, figure
from bench.harness.bench import Bench, Say
from bench.harness.result import BYTES, Column, Plot, Result, Table
from bench.harness.result import Arm as Row
from bench.harness.scale import Scale
from bench.ingest.load import Arm, Load
from bench.ingest.load import measure as run

PROCESSES = ("broker", "database", "controllers", "api", "agents")
GROWTH = 1.25  # times the memory that controllers and API may take in the end, against a third of the time

_ABOUT = """
Each host reports its 50 VMs every 10 s: 2,000 hosts are 200 messages and 10,000 VMs a second, through a real broker and
two controllers into the database, while somebody asks the API twice a second for hosts, VMs by unreported memory and
the fleet's history. All of it shares the machine's cores with what stands for the agents. Messages wait in the broker;
medians of the first and the last third of the time. What is late for three periods is replaced by what is newer, and no
history is lost. CPU is in cores.
"""


def measure(scale: Scale, say: Say) -> Result:
    """Five minutes; half an hour at full scale."""
    arms = []
    for database, load in _loads(scale):
        say(f"{database}: {load}")
        arms.append((load, run(database, load)))
    _, first = arms[0]
    memory = [end / begin for name, (begin, end) in first.memory.items() if name in ("controllers", "api", "broker")]
    waiting = first.backlog[1] - first.backlog[0]
    lead = f"{arms[0][0].hosts} hosts on {first.database}"
    return Result(
        "ingest",
        scale,
        {"controllers": arms[0][0].controllers},
        told(arms),
        (
            Verdict(f"{lead}: messages more that wait in the end", arms[0][0].messages, None, waiting),
            Verdict(f"{lead}: times the memory in the end", GROWTH, None, max(memory)),
            Verdict(f"{lead}: hosts whose newest report was taken", None, arms[0][0].hosts, first.taken),
        ),
        (Plot("CPU of the controllers", "cores", table=1, column="controllers"),),
        tuple(
            f"{arm.database} does not keep up with {load.hosts} hosts here." for load, arm in arms[1:] if not arm.met
        ),
    )


def _loads(scale: Scale) -> list[tuple[str, Load]]:
    if scale is Scale.SMOKE:
        return [("postgresql", Load(20, 5, 2.0, 6.0, 1))]
    full = scale is not Scale.SHORT
    fleet, shorter = Load(2000, 50, 10.0, 300.0 if full else 120.0, 2), Load(2000, 50, 10.0, 60.0, 2)
    found = [("postgresql", fleet), ("mariadb", fleet if full else shorter), ("sqlite", fleet if full else shorter)]
    return [*found, ("postgresql", Load(10_000, 50, 10.0, 60.0, 2))] if full else found


def told(arms: Sequence[tuple[Load, Arm]]) -> tuple[Table, Table, Table]:
    """Backlog and answers, CPU, and memory of each arm."""
    answers, cpu, memory = [], [], []
    for load, arm in arms:
        name = f"{arm.database}, {load.hosts} hosts for {load.seconds:g} s"
        answers.append(Row(name, {key: figure([value]) for key, value in _answers(arm).items()}))
        cpu.append(Row(name, {key: _one(arm.cpu.get(key)) for key in PROCESSES}))
        memory.append(Row(name, {key: _range(arm.memory.get(key)) for key in PROCESSES}))
    columns = (
        Column("sent", "reports sent", "", 0),
        Column("taken", "hosts whose newest was taken", "", 0),
        Column("early", "waiting, first third", "", 0),
        Column("late", "waiting, last third", "", 0),
        Column("most", "most", "", 0),
        Column("p50", "API p50", "ms", 0),
        Column("p99", "API p99", "ms", 0),
    )
    return (
        Table("Messages and answers", columns, answers),
        Table("CPU", [Column(key, key, "cores", 2) for key in PROCESSES], cpu),
        Table("Memory, from a third of the time to the end", [Column(key, key, BYTES, 0) for key in PROCESSES], memory),
    )


def _answers(arm: Arm) -> dict[str, Any]:
    return {
        "sent": arm.sent,
        "taken": arm.taken,
        "early": arm.backlog[0],
        "late": arm.backlog[1],
        "most": arm.backlog[2],
        "p50": arm.api[0] * 1000,
        "p99": arm.api[1] * 1000,
    }


def _one(value: float | None) -> Figure | None:
    return None if value is None else figure([value])


def _range(values: tuple[int, int] | None) -> Figure | None:
    return None if values is None or not values[0] else figure(values)


BENCH = Bench("ingest", "The reports of a fleet", _ABOUT, measure)
