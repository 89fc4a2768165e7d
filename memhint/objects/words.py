"""Words of a message. One that only a newer memhint knows is read as unknown, and is refused where people type it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from enum import StrEnum
from typing import Any, Self, TypeVar

UNKNOWN = "unknown"

_READING: ContextVar[bool] = ContextVar("reading words of other versions", default=False)
_MADE: dict[type[Any], Any] = {}


class Word(StrEnum):
    """An enumeration that a later version may extend. ``unknown`` is none of its members, and equals none."""

    @classmethod
    def _missing_(cls, value: object) -> Self | None:
        if not _READING.get() or not isinstance(value, str):
            return None
        made: Self | None = _MADE.get(cls)
        if made is None:
            made = str.__new__(cls, UNKNOWN)
            made._name_, made._value_ = UNKNOWN.upper(), UNKNOWN
            made = _MADE.setdefault(cls, made)
        return made

    @property
    def known(self) -> bool:
        """Whether this version knows it."""
        return self._name_ in type(self).__members__


@contextmanager
def other_versions() -> Iterator[None]:
    """Within it, a word that this version does not know is read as ``unknown`` instead of being refused."""
    token = _READING.set(True)
    try:
        yield
    finally:
        _READING.reset(token)


W = TypeVar("W", bound=Word)


def read_word(kind: type[W], text: str) -> W:
    """A word that was stored, perhaps by a newer version."""
    with other_versions():
        return kind(text)
