"""Marks on what memhint changed, so that only that is undone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Protocol

HOST = "host"  # the subject of marks that belong to no VM
_THEN = " then "  # between two values of ``after``, of which it is not known yet whether it came to the second


@dataclass(frozen=True, slots=True)
class Mark:
    """``knob`` of ``subject`` was ``before`` and was set to ``after``.

    ``instance`` names the thing that holds the setting (a QEMU process, a guest boot, a host boot): when it is gone the
    setting went with it, and there is nothing to undo.
    """

    subject: str  # a domain's UUID, or HOST
    knob: str
    before: str
    after: str
    instance: str
    at: float

    def made(self, seen: str) -> bool:
        """Whether it was memhint that set what is seen there."""
        return seen in self.values()

    def values(self) -> list[str]:
        """What memhint set; two while it is not known whether the second was written."""
        return self.after.split(_THEN)


def on_the_way(new: Mark, known: Mark | None, seen: str) -> Mark:
    """``new`` as it is kept before the write, where ``known`` may say that what is ``seen`` there is memhint's already.

    It tells of both until the write is done: one that fails, or that a killed agent never came to, leaves the first.
    """
    ours = known is not None and known.instance in ("", new.instance) and known.made(seen)
    if known is None or not ours or seen in (known.before, new.after):
        return new
    return to_be_done(new, seen)


def to_be_done(new: Mark, seen: str) -> Mark:
    """``new`` as long as nobody knows whether it is done, or what is ``seen`` there still stands."""
    return replace(new, after=f"{seen}{_THEN}{new.after}")


@contextmanager
def marking(put: Callable[[Mark], None], new: Mark, known: Mark | None, seen: str) -> Iterator[None]:
    """Around a write: ``new`` is kept with `put` as `on_the_way` has it, and as it is once the write is done."""
    kept = on_the_way(new, known, seen)
    put(kept)
    yield
    if kept != new:
        put(new)


class Ledger(Protocol):
    """Where marks are kept. Written before the change is made, so that a killed agent still knows what it owns."""

    def put(self, mark: Mark) -> None:
        """Keep a mark; an older one of the same subject and knob keeps its ``before`` if the instance is the same."""

    def get(self, subject: str, knob: str) -> Mark | None:
        """The mark, or None where memhint owns nothing there."""

    def remove(self, subject: str, knob: str) -> None:
        """Forget a mark: it was undone, or its instance is gone."""

    def of(self, subject: str) -> tuple[Mark, ...]:
        """The marks of one subject, oldest first."""

    def all(self) -> tuple[Mark, ...]:
        """Every mark, oldest first. Of a host with thousands of VMs they are many: not to be asked for per VM."""
