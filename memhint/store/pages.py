"""Lists in parts: the values of a part's last line tell where the next one begins, so that no line is counted."""

from __future__ import annotations

import base64
import binascii
import json
import math
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from sqlalchemy import ColumnElement, Row, Select, Subquery, and_, or_

from memhint.objects.strict_json import no_constant
from memhint.store.errors import MarkerError

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """A part of a list, and the marker with which the next one begins; None at the end."""

    items: tuple[T, ...]
    next: str | None


@dataclass(frozen=True, slots=True)
class Changes(Generic[T]):
    """What changed since a token, the names of what is no more, and the token to ask with the next time."""

    items: tuple[T, ...]
    deleted: tuple[str, ...]
    token: str


@dataclass(frozen=True, slots=True)
class Order:
    """By one value, then by keys that no two lines share. What is unknown comes last in either direction."""

    name: str
    value: ColumnElement[Any]
    keys: tuple[ColumnElement[Any], ...]
    descending: bool

    def apply(self, query: Select[Any], marker: str | None, limit: int) -> Select[Any]:
        """The lines after the marker, and one more than ``limit``, which tells whether there are others.

        :raises MarkerError: on one that is of no list in this order
        """
        keys = [key.label(f"key_{number}") for number, key in enumerate(self.keys)]
        query = query.add_columns(self.value.label("sorted_by"), *keys)
        if marker is not None:
            query = query.where(self._after(marker))
        return query.order_by(*self._by(self.value), *self.keys).limit(limit + 1)

    def again(self, query: Select[Any], lines: Subquery) -> Select[Any]:
        """The same order for a query over such lines."""
        keys = (lines.c[f"key_{number}"] for number in range(len(self.keys)))
        return query.order_by(*self._by(lines.c.sorted_by), *keys)

    def marker(self, row: Row[Any]) -> str:
        """Where a part ends that has this row as its last one."""
        keys = [row._mapping[f"key_{number}"] for number in range(len(self.keys))]
        plain = [self.name, self.descending, row.sorted_by, *keys]
        # As UTF-8: escaped, a character of another script takes up to twelve bytes. Half a character, which no database
        # keeps, is refused where the marker comes back.
        text = json.dumps(plain, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "surrogatepass")
        return base64.urlsafe_b64encode(text).decode().rstrip("=")

    def _by(self, value: ColumnElement[Any]) -> tuple[ColumnElement[Any], ...]:
        return (value.is_(None), value.desc() if self.descending else value.asc())

    def _after(self, marker: str) -> ColumnElement[bool]:
        try:
            text = base64.b64decode(marker + "=" * (-len(marker) % 4), altchars="-_", validate=True)
            plain = json.loads(text, parse_constant=no_constant)
            json.dumps(plain, ensure_ascii=False).encode()  # half a character is one to JSON and to no database
        except (binascii.Error, ValueError, RecursionError) as error:
            raise MarkerError("this marker is of no list: begin with the first part") from error
        if (
            not isinstance(plain, list)
            or plain[:2] != [self.name, self.descending]
            or len(plain) != 3 + len(self.keys)
            or type(plain[2]) not in (str, int, float, type(None))
            or (isinstance(plain[2], float) and not math.isfinite(plain[2]))
            or (plain[2] is not None and isinstance(plain[2], str) != (self.value.type.python_type is str))
            or (isinstance(plain[2], int) and not -(2**63) <= plain[2] < 2**63)
            or not all(isinstance(one, str) and len(one) <= 255 and "\0" not in one for one in plain[3:])
            or (isinstance(plain[2], str) and "\0" in plain[2])
        ):
            raise MarkerError("this marker is of another list: begin with the first part")
        value, keys = plain[2], plain[3:]
        later = _beyond(self.keys, keys)
        if value is None:
            return and_(self.value.is_(None), later)
        further = self.value < value if self.descending else self.value > value
        return or_(further, and_(self.value == value, later), self.value.is_(None))


def _beyond(columns: tuple[ColumnElement[Any], ...], values: list[str]) -> ColumnElement[bool]:
    first = columns[0] > values[0]
    return first if len(columns) == 1 else or_(first, and_(columns[0] == values[0], _beyond(columns[1:], values[1:])))
