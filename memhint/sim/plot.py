"""The course of a simulation as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import matplotlib
import numpy as np

from memhint.objects.counted import counted

matplotlib.use("Agg")

from matplotlib import pyplot

from memhint.planner.settings import PlannerSettings
from memhint.sim.engine import SimulationResult
from memhint.sim.fleet import Fleet

_POINTS = 360  # along the time axis, each with the most of its steps
_DAY = 86400.0


def plot(path: Path, fleet: Fleet, outcomes: Sequence[SimulationResult], settings: PlannerSettings) -> None:
    """Write VMs, the fullest host and violating hosts over time; the suffix of ``path`` is the format.

    :raises ValueError: when matplotlib does not know the suffix
    :raises OSError: when it cannot be written
    """
    figure, (placed, highest, violating) = pyplot.subplots(3, 1, figsize=(9, 9), sharex=True, height_ratios=(3, 2, 1))
    width = max(1, -(-fleet.steps // _POINTS))
    days = np.arange(0, fleet.steps, width) * fleet.step / _DAY
    for outcome in outcomes:
        series = outcome.series
        placed.plot(days, _most(series.placed, width), label=outcome.policy, linewidth=1.2)
        highest.plot(days, 100 * _most(series.highest, width), linewidth=0.8)
        violating.plot(days, _most(series.violating, width), linewidth=0.8)
    shape = fleet.shape
    limit = 100 * (shape.pool - settings.reserve_of(shape.pool)) / shape.pool
    highest.axhline(limit, color="black", linewidth=0.8, linestyle=":")
    highest.annotate("memory − reserve", (days[-1], limit), ha="right", va="bottom", fontsize=8)
    placed.set_title(f"{fleet.name}: {counted(fleet.hosts, 'host')}, {shape.pool / 2**30:g} GiB each")
    placed.set_ylabel("VMs")
    placed.legend(fontsize=8, ncols=3)
    highest.set_ylabel("fullest host, %")
    violating.set_ylabel("violating hosts")
    violating.set_xlabel("days")
    for axes in (placed, highest, violating):
        axes.grid(alpha=0.3)
        axes.set_ylim(bottom=0)
    figure.tight_layout()
    try:
        # Without a date and a version the same run gives the same file.
        blank = {"Date": None} if path.suffix == ".svg" else {"Software": None} if path.suffix == ".png" else None
        figure.savefig(path, dpi=80, metadata=blank)
    finally:
        pyplot.close(figure)


def _most(values: np.ndarray, width: int) -> np.ndarray:
    """The largest of each ``width`` steps."""
    return np.maximum.reduceat(values, np.arange(0, len(values), width))
