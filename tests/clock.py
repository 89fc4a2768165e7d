"""Time in a test's hand."""

from __future__ import annotations


class Clock:
    """It stands still until a test moves it. A database's clock is asked with its connection."""

    def __init__(self, now: float = 0.0) -> None:
        self.now = now

    def __call__(self, *_: object) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
