"""One bench: what it is called, what it is about, and how it is run."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass

from bench.harness.result import Result
from bench.harness.scale import Scale

Say = Callable[[str], None]
"""Takes one line of progress."""


@dataclass(frozen=True, slots=True)
class Bench:
    """`about` is what a reader of doc/measurements.md is told before the tables, in Markdown.

    `measure` runs it: raises PreconditionFailed where its figures would mean nothing. `exact`: they depend neither on
    the machine nor on the scale, and `make test` fails when a smoke misses a target.
    """

    name: str
    title: str
    about: str
    measure: Callable[[Scale, Say], Result]
    exact: bool = False


def say(text: str) -> None:
    """Progress is for people, on standard error."""
    print(text, file=sys.stderr, flush=True)
