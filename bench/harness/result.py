"""What a bench found: tables of arms and figures, targets, and curves. Kept as JSON, one file per bench."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from bench.figures import Figure, Verdict, table
from bench.harness.scale import Scale
from memhint.objects.units import MIB

BYTES = "bytes"
"""The unit of a column of memory: bytes here, MiB where people read it."""


@dataclass(frozen=True, slots=True)
class Column:
    """One measured quantity. `unit` is BYTES, "s", "%" or another word to stand behind the label; may be empty."""

    key: str
    label: str
    unit: str = ""
    digits: int = 1

    @property
    def heading(self) -> str:
        """The label with the unit that people read."""
        unit = "MiB" if self.unit == BYTES else self.unit
        return f"{self.label}, {unit}" if unit else self.label

    def shown(self, figure: Figure | None) -> str:
        """Median, and the range in brackets where there is one to tell; a dash for what was not measured."""
        if figure is None:
            return "–"
        if figure.runs < 2 or self._text(figure.lowest) == self._text(figure.highest):
            return self._text(figure.median)
        return f"{self._text(figure.median)} ({self._text(figure.lowest)} to {self._text(figure.highest)})"

    def _text(self, value: float) -> str:
        return f"{value / MIB if self.unit == BYTES else value:.{self.digits}f}"


@dataclass(frozen=True, slots=True)
class Arm:
    """One row: a way to run, and its figures by the key of the column; None where it could not be measured.

    `published` is what the source of the bench gives for the same row, in its own words and units.
    """

    name: str
    figures: Mapping[str, Figure | None]
    published: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """Arms side by side in one run. `published_by` names whose figures stand in the last column, if any do."""

    title: str
    columns: Sequence[Column]
    arms: Sequence[Arm]
    published_by: str = ""

    def __str__(self) -> str:
        """For the terminal."""
        head, *rows = self.rows()
        return f"{self.title}\n{table(head, rows)}"

    def rows(self) -> list[list[str]]:
        """Head first, as text."""
        told = any(arm.published for arm in self.arms)
        head = ["", *(column.heading for column in self.columns), *([self.published_by or "published"] if told else [])]
        return [
            head,
            *(
                [
                    arm.name,
                    *(column.shown(arm.figures.get(column.key)) for column in self.columns),
                    *([arm.published] if told else []),
                ]
                for arm in self.arms
            ),
        ]


@dataclass(frozen=True, slots=True)
class Curve:
    """Points (x, y) of one line, in the units of its plot's axes."""

    name: str
    points: Sequence[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Plot:
    """A picture. With curves it is lines over x; without, bars of one column of one table."""

    title: str
    y: str
    x: str = ""
    curves: Sequence[Curve] = ()
    table: int = 0
    column: str = ""


@dataclass(frozen=True, slots=True)
class Result:
    """All that one run of a bench found. `environment` is what its figures depend on besides the machine, by name."""

    name: str
    scale: Scale
    environment: Mapping[str, Any]
    tables: Sequence[Table]
    targets: Sequence[Verdict] = ()
    plots: Sequence[Plot] = ()
    notes: Sequence[str] = field(default_factory=tuple)

    @property
    def met(self) -> bool:
        """Whether every target was."""
        return all(one.met for one in self.targets)

    def __str__(self) -> str:
        """For the terminal."""
        parts = [str(one) for one in self.tables]
        parts += [str(verdict) for verdict in self.targets]
        parts += [f"note: {note}" for note in self.notes]
        return "\n\n".join(parts)

    def as_json(self) -> dict[str, Any]:
        """For the results file; `read` is the way back."""
        return {
            "name": self.name,
            "scale": self.scale.value,
            "met": self.met,
            "environment": dict(self.environment),
            "tables": [
                {
                    "title": one.title,
                    "published_by": one.published_by,
                    "columns": [asdict(column) for column in one.columns],
                    "arms": [
                        {
                            "name": arm.name,
                            "published": arm.published,
                            "figures": {
                                key: None if figure is None else figure.as_json() for key, figure in arm.figures.items()
                            },
                        }
                        for arm in one.arms
                    ],
                }
                for one in self.tables
            ],
            "targets": [one.as_json() for one in self.targets],
            "plots": [asdict(one) for one in self.plots],
            "notes": list(self.notes),
        }


def write(result: Result, path: Path) -> None:
    """Keep a result, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_suffix(".new")
    fresh.write_text(json.dumps(result.as_json(), indent=1, ensure_ascii=False) + "\n")
    fresh.rename(path)


def read(path: Path) -> Result:
    """A result that was kept. Raises ValueError for a file that is none."""
    try:
        told = json.loads(path.read_text())
        return Result(
            told["name"],
            Scale(told["scale"]),
            told["environment"],
            tuple(_table(one) for one in told["tables"]),
            tuple(_verdict(one) for one in told["targets"]),
            tuple(
                Plot(
                    **{
                        **one,
                        "curves": tuple(
                            Curve(curve["name"], tuple((x, y) for x, y in curve["points"])) for curve in one["curves"]
                        ),
                    }
                )
                for one in told["plots"]
            ),
            tuple(told["notes"]),
        )
    except (KeyError, TypeError) as error:
        raise ValueError(f"{path} is not a result of a bench: {error!r}") from error


def _table(told: Mapping[str, Any]) -> Table:
    arms = tuple(
        Arm(
            arm["name"],
            {key: None if figure is None else _figure(figure) for key, figure in arm["figures"].items()},
            arm["published"],
        )
        for arm in told["arms"]
    )
    return Table(told["title"], tuple(Column(**one) for one in told["columns"]), arms, told["published_by"])


def _figure(told: Mapping[str, Any]) -> Figure:
    return Figure(told["median"], told["lowest"], told["highest"], told["runs"])


def _verdict(told: Mapping[str, Any]) -> Verdict:
    target = told["target"]
    return Verdict(told["what"], target.get("at_most"), target.get("at_least"), told["measured"])
