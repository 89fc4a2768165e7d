"""How figures of the API are shown in tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from memhint.cli.table import Mib, Number
from memhint.client.client import Item


@dataclass(frozen=True, slots=True)
class Column:
    """One of a table: the member it shows, its title, and how."""

    key: str
    title: str
    show: Callable[[Any], Any]

    def cell(self, item: Item) -> Any:
        """The cell of an item; what a server does not tell is unknown."""
        return self.show(item.get(self.key))


def text(value: Any) -> str:
    """Anything for a person."""
    if value is None or value == "":
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "-"
    return str(value)


def sizes(*columns: str | tuple[str, str]) -> tuple[Column, ...]:
    """Columns of memory: keys, with a title where that is another word."""
    return _columns(Mib, columns)


def words(*columns: str | tuple[str, str]) -> tuple[Column, ...]:
    """Columns of text."""
    return _columns(text, columns)


def numbers(*columns: str | tuple[str, str]) -> tuple[Column, ...]:
    """Columns of other numbers."""
    return _columns(Number, columns)


def _columns(show: Callable[[Any], Any], columns: Iterable[str | tuple[str, str]]) -> tuple[Column, ...]:
    named = ((one, one.capitalize()) if isinstance(one, str) else one for one in columns)
    return tuple(Column(key, title, show) for key, title in named)
