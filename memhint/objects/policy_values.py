"""The values that a policy key can take: words of its own, and kinds of value, how each is checked and shown."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from memhint.objects.units import MIB
from memhint.objects.words import Word

_NAME = re.compile(r"[A-Za-z0-9._:-]{1,64}")
_DIGITS = 18  # more is no number that anybody means


class Mode(Word):
    """A lever's wish: on, off, or memhint's own choice."""

    ON = "on"
    OFF = "off"
    AUTO = "auto"


class Consent(StrEnum):
    """Whether something may be done that costs the VM something, or that changes its inside."""

    ALLOW = "allow"
    DENY = "deny"


class QosClass(Word):
    """How much of its memory a VM is promised at any time."""

    GUARANTEED = "guaranteed"  # all of it: counts in full, and nothing is taken from it
    BURSTABLE = "burstable"  # what it is forecast to need
    BEST_EFFORT = "best-effort"  # the same, and the first to give when the host is under pressure


class PolicyError(ValueError):
    """A policy key or value that does not exist; the text says which do."""


class ValueType(Protocol):
    """What a key's values are."""

    @property
    def form(self) -> str:
        """The values in short, for a command line: ``on|off``, ``NAME``, ``0..10|auto``."""

    @property
    def accepted(self) -> str:
        """The values in words, for an error: what to use instead."""

    def check(self, value: str) -> str | None:
        """The value in its one spelling; None where it is none of this kind."""

    def shown(self, value: str) -> str:
        """The value for people, with its unit."""


def is_whole(value: str) -> bool:
    """Whether it is a number that somebody may mean."""
    # str.isdecimal alone takes the digits of every script
    return value.isascii() and value.isdecimal() and len(value) <= _DIGITS


@dataclass(frozen=True, slots=True)
class Choice:
    """One of a few words."""

    words: tuple[str, ...]

    @property
    def form(self) -> str:
        """See ValueType."""
        return "|".join(self.words)

    @property
    def accepted(self) -> str:
        """See ValueType."""
        return f"one of {', '.join(self.words)}"

    def check(self, value: str) -> str | None:
        """See ValueType."""
        return value if value in self.words else None

    def shown(self, value: str) -> str:
        """See ValueType."""
        return value


@dataclass(frozen=True, slots=True)
class Name:
    """A name; empty is none."""

    @property
    def form(self) -> str:
        """See ValueType."""
        return "NAME"

    @property
    def accepted(self) -> str:
        """See ValueType."""
        return "up to 64 letters, digits and . _ : -"

    def check(self, value: str) -> str | None:
        """See ValueType."""
        return value if not value or _NAME.fullmatch(value) else None

    def shown(self, value: str) -> str:
        """See ValueType."""
        return value or "-"


@dataclass(frozen=True, slots=True)
class WholeNumber:
    """A whole number from ``low`` to ``high``, or one of ``words`` in its place."""

    low: int
    high: int
    unit: str = ""
    words: tuple[str, ...] = ()

    @property
    def form(self) -> str:
        """See ValueType."""
        return "|".join((f"{self.low}..{self.high}", *self.words))

    @property
    def accepted(self) -> str:
        """See ValueType."""
        return " or ".join((f"a whole number from {self.low} to {self.high}", *self.words))

    def check(self, value: str) -> str | None:
        """See ValueType."""
        if value in self.words:
            return value
        if not is_whole(value):
            return None
        number = int(value)
        return str(number) if self.low <= number <= self.high else None

    def shown(self, value: str) -> str:
        """See ValueType."""
        return value if value in self.words or not self.unit else f"{value} {self.unit}"


@dataclass(frozen=True, slots=True)
class PercentOrMib:
    """A part of something: percent of it, as ``40%``, or MiB."""

    high: int  # MiB

    @property
    def form(self) -> str:
        """See ValueType."""
        return "0%..100%|MIB"

    @property
    def accepted(self) -> str:
        """See ValueType."""
        return f"a whole percentage such as 40%, or MiB from 0 to {self.high}"

    def check(self, value: str) -> str | None:
        """See ValueType."""
        text = value.removesuffix("%")
        if not is_whole(text) or int(text) > (self.high if text == value else 100):
            return None
        return f"{int(text)}{value[len(text) :]}"

    def shown(self, value: str) -> str:
        """See ValueType."""
        return value if value.endswith("%") else f"{value} MiB"


def part_of(value: str, whole: int) -> int | None:
    """The bytes that a value of ``PercentOrMib`` means; None where it says nothing.

    :param whole: bytes that a percentage is of
    """
    text = value.removesuffix("%")
    if not is_whole(text):
        return None
    return int(text) * MIB if text == value else whole * int(text) // 100
