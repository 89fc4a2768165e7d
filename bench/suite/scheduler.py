"""What the Nova plugin costs a scheduler: the filter alone, the snapshot's memory, and a whole select_destinations."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench.figures import Verdict, figure, percent
from bench.harness.bench import Bench, Say
from bench.harness.result import BYTES, Arm, Column, Plot, Result, Table
from bench.harness.scale import Scale

ROOT = Path(__file__).resolve().parents[2]
RELEASE = "34"
GOAL_FILTER = 50.0  # ms, the median of filter_all over the most hosts
GOAL_ADDED = 5.0  # percent of a whole select_destinations
SIZES = (100, 1_000, 10_000)
ROUNDS = {Scale.SMOKE: 3, Scale.SHORT: 15}
_SHOWN = {"all pass": "all pass", "mixed": "a fifth refused", "none passes": "none passes"}

_ABOUT = """
Nova 34's own HostState, SchedulerManager, default filters and weighers, in CPU time. What a call waits for (Placement,
databases, messages) is left out, so the plugin's part shows larger than it is. Placement gives a scheduler 1,000 hosts
by default. The snapshot is what the plugin holds of all hosts in memory.
"""


def measure(scale: Scale, say: Say) -> Result:
    """Three minutes; eight at full scale."""
    sizes = (10, 100) if scale is Scale.SMOKE else SIZES
    say(f"Nova {RELEASE}, with its packages if the cache has none")
    prepared = subprocess.run([ROOT / "nova_plugin/venv", RELEASE], check=True, stdout=subprocess.PIPE, text=True)
    words = [prepared.stdout.split()[-1], "-W", "ignore", "-m", "bench.nova_scheduler"]
    say(f"timing with {', '.join(map(str, sizes))} hosts")
    done = subprocess.run(
        [*words, str(ROUNDS.get(scale, 45)), *map(str, sizes)], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True
    )
    told = json.loads(done.stdout)
    select = _select(told["select"])
    largest = str(sizes[-1])
    return Result(
        "scheduler",
        scale,
        {"nova": told["nova"], "clock": "CPU time of the process"},
        (_filter(told["filter"]), _snapshot(told["snapshot"]), select),
        (
            *(
                Verdict(f"filter_all over {largest} hosts, {_SHOWN[arm]}, ms", GOAL_FILTER, None, figure(took).median)
                for arm, took in told["filter"][largest].items()
            ),
            *(
                Verdict(f"percent added to select_destinations, {arm.name}", GOAL_ADDED, None, added.median)
                for arm in select.arms
                if (added := arm.figures["added"]) is not None
            ),
        ),
        (Plot("filter_all", "ms", column="all pass"),),
    )


def _filter(told: Mapping[str, Mapping[str, list[float]]]) -> Table:
    arms = [Arm(f"{size} hosts", {arm: figure(took) for arm, took in arms.items()}) for size, arms in told.items()]
    return Table("filter_all", [Column(arm, label, "ms", 2) for arm, label in _SHOWN.items()], arms)


def _snapshot(told: Mapping[str, Mapping[str, Any]]) -> Table:
    arms = [
        Arm(
            f"{size} hosts",
            {
                "bytes": figure([one["bytes"]]),
                "each": figure([one["bytes"] / int(size)]),
                "replace": figure(one["replace"]),
            },
        )
        for size, one in told.items()
    ]
    columns = (
        Column("bytes", "holds", BYTES, 2),
        Column("each", "bytes per host", "", 0),
        Column("replace", "a whole new one", "ms"),
    )
    return Table("The snapshot", columns, arms)


def _select(told: Mapping[str, Mapping[str, list[float]]]) -> Table:
    arms = [
        Arm(
            f"{size} hosts, {arm}",
            {"ms": figure(took), "added": None if arm == "stock" else percent(took, arms["stock"])},
        )
        for size, arms in told.items()
        for arm, took in arms.items()
    ]
    return Table(
        "select_destinations, arms in turn", (Column("ms", "a call", "ms"), Column("added", "added", "%", 2)), arms
    )


BENCH = Bench("scheduler", "Cost of the Nova plugin", _ABOUT, measure)
