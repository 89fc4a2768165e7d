"""Marks on what memhint changed, so that only that is undone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

HOST = "host"  # the subject of marks that belong to no VM


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


class Ledger(Protocol):
    """Where marks are kept. Written before the change is made, so that a killed agent still knows what it owns."""

    def put(self, mark: Mark) -> None:
        """Keep a mark; an older one of the same subject and knob keeps its ``before`` if the instance is the same."""

    def get(self, subject: str, knob: str) -> Mark | None:
        """The mark, or None where memhint owns nothing there."""

    def remove(self, subject: str, knob: str) -> None:
        """Forget a mark: it was undone, or its instance is gone."""

    def all(self) -> tuple[Mark, ...]:
        """Every mark, oldest first."""
