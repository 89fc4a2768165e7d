"""Long lists in parts: each value in a statement is a parameter, and databases take no more than some ten thousand."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar

AT_ONCE = 500  # values in one statement

T = TypeVar("T")


def parts(values: Iterable[T]) -> Iterator[list[T]]:
    """The values in their order, some hundred at a time; none where there are none."""
    every = list(values)
    for begin in range(0, len(every), AT_ONCE):
        yield every[begin : begin + AT_ONCE]
