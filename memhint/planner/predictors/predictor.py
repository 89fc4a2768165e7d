"""What a predictor is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from memhint.planner.past import Past


class Predictor(Protocol):
    """Turns a past into a forecast. Pure: the same past gives the same forecast."""

    @property
    def key(self) -> str:
        """Names the kind of past that it keeps: one that was kept under another key tells it nothing."""

    @property
    def words(self) -> str:
        """What its forecast is, for people."""

    def first(self, instance: str, use: int, now: float) -> Past:
        """The past of a process that is seen for the first time."""

    def next(self, past: Past, use: int, now: float) -> Past:
        """The past with one more sample."""

    def forecast(self, uses: Sequence[int], assigned: Sequence[int], pasts: Sequence[Past]) -> list[int]:
        """What each of a host's VMs may come to use, in bytes within [use, assigned].

        The three have one entry per VM: its U now, its A, and its past. ``use`` is within [0, ``assigned``].
        """


def within(forecast: float, use: int, assigned: int) -> int:
    """A forecast in whole bytes, within [use, assigned]."""
    whole = int(forecast)
    if whole <= use:
        return use
    return whole if whole < assigned else assigned
