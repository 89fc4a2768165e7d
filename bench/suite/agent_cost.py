"""What the agent costs: CPU per cycle and memory by the number of VMs, and deep reads by the memory that is mapped."""

from __future__ import annotations

import statistics
from typing import Any

from bench import agent_runs
from bench.agent_runs import PERIOD
from bench.figures import Figure, Verdict, figure
from bench.harness.bench import Bench, Say
from bench.harness.precondition import no_other_guests, require
from bench.harness.result import BYTES, Arm, Column, Plot, Result, Table
from bench.harness.scale import Scale
from memhint.objects.units import GIB, MIB

GOAL_PERCENT = 2.0  # of one core
GOAL_MEMORY = 60 * MIB
DEEP_PERCENT = 0.5  # of one core: the budget that [observe] deep_cpu_percent gives by default
FLEET = 512 * GIB  # of mapped memory, for which a round of deep reads is worked out

_ABOUT = """
The real cycle (observe, plan, publish into SQLite) over real processes; libvirt and the guests are stand-ins, except in
the rows of the whole agent. Those are `memhint agent` as it is started, with its threads, its store and its connections
to a libvirtd, at the shipped period: beside real guests, and on VMs of libvirt's test driver, which have processes
and no guests to ask. Deep reads
(PSS, huge pages, NUMA nodes) are apart: they grow with the memory that is mapped, so they run on a thread of their own
with a budget of CPU, and everything else is as fresh as ever.
"""


def measure(scale: Scale, say: Say) -> Result:
    """Some minutes at every scale but the smoke."""
    no_other_guests()
    smoke = scale is Scale.SMOKE
    arms, seen = [], {}
    for vms in (1, 10) if smoke else (1, 10, 100):
        say(f"cycles over {vms} VMs")
        told = agent_runs.cycles(vms, 5 if smoke else 30)
        seen[vms] = figure(told["cpu"])
        arms.append(_cycle(f"{vms} VM{'s' if vms > 1 else ''}", figure(told["cpu"]), told["rss"]))
    guests = 1 if smoke else 6
    say(f"the whole agent beside {guests} guests")
    whole = agent_runs.real_agent(guests, 2 if smoke else 12)
    arms.append(_cycle(f"the whole agent, {guests} real guests", figure([whole["cpu"]]), whole["rss"]))
    most = max(seen)
    say(f"the whole agent on {most} VMs of libvirt's test driver")
    crowded = agent_runs.crowded_agent(most, 2 if smoke else 12)
    require(crowded["vms"] == most, f"the agent has seen {crowded['vms']} of {most} VMs")
    arms.append(_cycle(f"the whole agent, {most} VMs", figure([crowded["cpu"]]), crowded["rss"]))
    say("deep reads")
    read = agent_runs.deep((GIB // 2) if smoke else 8 * GIB, 3 if smoke else 7)
    percent = 100 * crowded["cpu"] / PERIOD + DEEP_PERCENT
    resident = max(whole["rss"], crowded["rss"])  # what stands in for libvirt and guests takes memory, too
    return Result(
        "agent_cost",
        scale,
        {},
        (_cycles(arms), _deep(read)),
        (
            Verdict(f"percent of a core at {most} VMs, deep reads at their budget", GOAL_PERCENT, None, percent),
            Verdict(f"MiB resident at up to {most} VMs, the whole agent", GOAL_MEMORY / MIB, None, resident / MIB),
        ),
        (Plot("CPU of the agent at a period of 10 s", "percent of a core", column="percent"),),
        (f"{most} VMs take {seen[most].median / seen[1].median:.1f} times the CPU of one.",),
    )


def _cycle(name: str, cpu: Figure, rss: int) -> Arm:
    return Arm(
        name,
        {"cpu": cpu.times(1000), "percent": cpu.times(100 / PERIOD), "rss": figure([rss])},
    )


def _cycles(arms: list[Arm]) -> Table:
    columns = (
        Column("cpu", "CPU per cycle", "ms"),
        Column("percent", f"of a core at {PERIOD:g} s", "%", 2),
        Column("rss", "resident", BYTES),
    )
    return Table("The cycle", columns, arms)


def _deep(read: dict[str, Any]) -> Table:
    per_gib = figure(one / (read["rss"] / GIB) for one in read["deep"])
    round_seconds = per_gib.median * FLEET / GIB
    figures = {
        "mapped": figure([read["rss"]]),
        "deep": figure(read["deep"]).times(1000),
        "gib": per_gib.times(1000),
        "cheap": figure([statistics.median(read["deep"]) / statistics.median(read["cheap"])]),
        "round": figure([round_seconds]),
        "spread": figure([round_seconds / (DEEP_PERCENT / 100) / 60]),
    }
    columns = (
        Column("mapped", "mapped in 4 KiB pages", BYTES, 0),
        Column("deep", "CPU of a deep read", "ms"),
        Column("gib", "per GiB", "ms"),
        Column("cheap", "times the cheap read", "", 0),
        Column("round", f"CPU of a round over {FLEET // GIB} GiB", "s"),
        Column("spread", f"such a round at {DEEP_PERCENT:g} % of a core", "min", 0),
    )
    return Table("Deep reads", columns, (Arm("one QEMU", figures),))


BENCH = Bench("agent_cost", "Cost of the agent", _ABOUT, measure)
