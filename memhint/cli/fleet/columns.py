"""How figures of the API are shown in tables."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from memhint.cli.table import Mib, Number
from memhint.client.client import Item
from memhint.objects.units import mib


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


def moment(value: Any) -> str:
    """Unix seconds as UTC."""
    if not isinstance(value, (int, float)):
        return "-"
    return datetime.fromtimestamp(value, UTC).strftime("%Y-%m-%d %H:%M:%S")


def size(value: Any) -> str:
    """Bytes with their unit, within a text."""
    return "-" if value is None else f"{mib(value)} MiB"


def sizes(*pairs: tuple[str, str]) -> tuple[Column, ...]:
    """Columns of memory."""
    return tuple(Column(key, title, Mib) for key, title in pairs)


def words(*pairs: tuple[str, str]) -> tuple[Column, ...]:
    """Columns of text."""
    return tuple(Column(key, title, text) for key, title in pairs)


def numbers(*pairs: tuple[str, str]) -> tuple[Column, ...]:
    """Columns of other numbers."""
    return tuple(Column(key, title, Number) for key, title in pairs)
