"""How much of a controller each sender may use, so that one that floods it does not slow the others."""

from __future__ import annotations

from dataclasses import dataclass

_SHARE = 64 * 2**10  # unpacked bytes that cost as much as one message does by itself


@dataclass(slots=True)
class _Left:
    amount: float
    at: float


class Allowance:
    """A bucket of tokens per sender: a message costs one, and one more for each 64 KiB of its text.

    A host of 500 VMs that reports every ten seconds takes 2 a second; a full spool after an outage takes 600 at once.
    """

    def __init__(self, rate: float = 50.0, burst: float = 2000.0) -> None:
        """:param rate: tokens a second that a sender gets back, up to ``burst``."""
        self._rate = rate
        self._burst = burst
        self._left: dict[str, _Left] = {}
        self._tidied = 0.0

    def open(self, sender: str, now: float) -> bool:
        """Whether a message of this sender is looked at.

        :param now: seconds of a monotonic clock
        """
        self._tidy(now)
        left = self._left.setdefault(sender, _Left(self._burst, now))
        left.amount = min(self._burst, left.amount + self._rate * max(0.0, now - left.at))
        left.at = now
        return left.amount >= 1.0

    def charge(self, sender: str, size: int, *, waited: bool = False) -> None:
        """Take what a message of so many unpacked bytes costs. What it costs shows afterwards, so it may be owed.

        :param waited: it came while nobody read, so how fast it comes now says nothing of its sender: only size counts
        """
        left = self._left.get(sender)
        if left is not None:
            left.amount -= size / _SHARE if waited else 1.0 + size / _SHARE

    def _tidy(self, now: float) -> None:
        full = self._burst / self._rate
        if now - self._tidied < full:
            return
        self._tidied = now
        self._left = {name: one for name, one in self._left.items() if now - one.at < full or one.amount < 0}
