"""Tables for people."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from typing import Any, TextIO

from cliff.columns import FormattableColumn
from cliff.formatters.table import TableFormatter

from memhint.cli.words import seconds
from memhint.objects.units import mib

TABLE = "table"  # cliff's name of the format


class Mib(FormattableColumn[int | None]):
    """Bytes: shown in MiB, a dash where they are not known, and bytes to machines."""

    def human_readable(self) -> str:
        """Whole MiB."""
        return mib(self._value)


class Seconds(FormattableColumn[float | None]):
    """An age: shown in whole seconds, a dash where it is not known."""

    def human_readable(self) -> str:
        """Whole seconds."""
        return seconds(self._value)


class Number(FormattableColumn[int | float | None]):
    """Any other number: shown whole or with one decimal, a dash where it is not known."""

    def human_readable(self) -> str:
        """The number."""
        value = self._value
        return "-" if value is None else f"{value:.1f}" if isinstance(value, float) else str(value)


class Table(TableFormatter):
    """cliff's table, with sizes to the right and nothing in it that could steer a terminal."""

    def __init__(self) -> None:
        super().__init__()
        self.ALIGNMENTS = {**TableFormatter.ALIGNMENTS, Mib: "r", Number: "r", Seconds: "r"}  # type: ignore[dict-item]

    def emit_list(
        self,
        column_names: Sequence[str],
        data: Iterable[Sequence[Any]],
        stdout: TextIO,
        parsed_args: argparse.Namespace,
    ) -> None:
        """Several rows."""
        super().emit_list(_titles(column_names), [[_clean(cell) for cell in row] for row in data], stdout, parsed_args)

    def emit_one(
        self, column_names: Sequence[str], data: Sequence[Any], stdout: TextIO, parsed_args: argparse.Namespace
    ) -> None:
        """One thing, a field in each row."""
        super().emit_one(_titles(column_names), [_clean(cell) for cell in data], stdout, parsed_args)


def unknown(cell: Any) -> bool:
    """Whether a cell holds no value."""
    return isinstance(cell, FormattableColumn) and cell.machine_readable() is None


def clean(text: str) -> str:
    """Text that a guest may have had a hand in, without what a terminal would obey."""
    return "".join(one if one.isprintable() or one == "\n" else "\N{REPLACEMENT CHARACTER}" for one in text)


def _titles(column_names: Sequence[str]) -> list[str]:
    """Names of columns or fields: some are names of hosts and VMs."""
    return [clean(name) for name in column_names]


def _clean(cell: Any) -> Any:
    return clean(cell) if isinstance(cell, str) else cell
