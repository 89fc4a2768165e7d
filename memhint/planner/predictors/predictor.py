"""What a predictor is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from memhint.planner.past import Past


@dataclass(frozen=True, slots=True)
class Member:
    """One VM whose need is forecast. Bytes; ``use`` is within [0, ``assigned``]."""

    use: int  # U now
    assigned: int  # A
    past: Past


class Predictor(Protocol):
    """Turns a past into a forecast. Pure: the same past gives the same forecast."""

    @property
    def key(self) -> str:
        """Names the kind of past that it keeps: one that was kept under another key tells it nothing."""

    def first(self, instance: str, use: int, now: float) -> Past:
        """The past of a process that is seen for the first time."""

    def next(self, past: Past, use: int, now: float) -> Past:
        """The past with one more sample."""

    def forecast(self, members: Sequence[Member]) -> list[int]:
        """What each of a host's VMs may come to use, in bytes within [use, assigned]."""


def within(forecast: float, member: Member) -> int:
    """A forecast in whole bytes, within [use, assigned]."""
    return min(max(int(forecast), member.use), member.assigned)
