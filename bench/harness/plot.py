"""Pictures of results."""

from __future__ import annotations

from pathlib import Path

from bench.harness.result import BYTES, Plot, Result
from memhint.objects.units import MIB


def draw(result: Result, directory: Path) -> list[Path]:
    """One PNG for each plot of a result; returns their paths."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    directory.mkdir(parents=True, exist_ok=True)
    written = []
    for number, plot in enumerate(result.plots):
        figure, axes = pyplot.subplots(figsize=(9, 4.5))
        axes.set_title(plot.title)
        if plot.curves:
            _lines(axes, plot)
        else:
            _bars(axes, plot, result)
        figure.tight_layout()
        path = directory / name_of(result.name, number)
        # Without the time and version that matplotlib would write, the same figures give the same file.
        figure.savefig(path, dpi=110, metadata={"Software": None})
        pyplot.close(figure)
        written.append(path)
    return written


def name_of(bench: str, number: int) -> str:
    """File name of a bench's plot."""
    return f"{bench}.png" if not number else f"{bench}-{number + 1}.png"


def _lines(axes, plot: Plot) -> None:  # type: ignore[no-untyped-def]
    for curve in plot.curves:
        axes.plot([x for x, _ in curve.points], [y for _, y in curve.points], label=curve.name)
    axes.set_xlabel(plot.x)
    axes.set_ylabel(plot.y)
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8)


def _bars(axes, plot: Plot, result: Result) -> None:  # type: ignore[no-untyped-def]
    table = result.tables[plot.table]
    column = next(one for one in table.columns if one.key == plot.column)
    divisor = MIB if column.unit == BYTES else 1
    shown = [(arm.name, figure) for arm in table.arms if (figure := arm.figures.get(plot.column)) is not None]
    names = [name for name, _ in shown]
    medians = [figure.median / divisor for _, figure in shown]
    below = [(figure.median - figure.lowest) / divisor for _, figure in shown]
    above = [(figure.highest - figure.median) / divisor for _, figure in shown]
    bars = axes.barh(names, medians, xerr=[below, above], capsize=3, color="tab:blue", alpha=0.85)
    axes.bar_label(bars, fmt=f"%.{column.digits}f", padding=4)
    axes.invert_yaxis()
    axes.set_xlabel(plot.y)
    axes.margins(x=0.12)
