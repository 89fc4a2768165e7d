"""The cache rung of the pressure ladder: reclaims are asked for while it is entered, and taken back when it is left.

The same for idle VMs of a calm host, where the settings say that this rung always holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from memhint.agent.reclaims import Reclaims
from memhint.objects.reclaim import SMALLEST, Reclaim
from memhint.objects.verdict import Reason

BY = "ladder"
LONGEST = 3600.0
"""Seconds that an idle VM is left alone at most, however often it was asked."""


class LadderReclaims:
    """What the ladder asked of whom. Bytes and seconds."""

    def __init__(self, reclaims: Reclaims, psi_limit: float, hold_off: float) -> None:
        """:param psi_limit: percent of a guest's own memory pressure at which it stops
        :param hold_off: seconds for which a guest that gave something, or refused, is left alone
        """
        self._reclaims = reclaims
        self._psi_limit = psi_limit
        self._hold_off = hold_off
        self._asked: dict[str, tuple[float, float]] = {}  # idle VMs: when it was, and the wait from then on

    def ask_idle(self, wanted: Mapping[str, int], at: float, why: str) -> None:
        """The same of idle VMs of a calm host, each after twice the time.

        A VM that reads files at a steady pace is as large as before, and so idle: it fills what it gives, and asking it
        again and again would cost it its cache for nothing.
        """
        due = {}
        for uuid, size in wanted.items():
            before, wait = self._asked.get(uuid, (at - self._hold_off, self._hold_off))
            if at - before >= wait:
                due[uuid] = size
        for uuid in self.ask(due, at, why):
            _, wait = self._asked.get(uuid, (at, self._hold_off / 2))
            self._asked[uuid] = (at, min(2 * wait, LONGEST))
        self._asked = {uuid: one for uuid, one in self._asked.items() if at - one[0] <= 2 * LONGEST}

    def woke(self, uuids: Iterable[str]) -> None:
        """These VMs are busy: once they are idle again they are asked at once."""
        for uuid in uuids:
            self._asked.pop(uuid, None)

    def ask(self, wanted: Mapping[str, int], at: float, why: str) -> list[str]:
        """Ask for what is wanted now, by domain UUID; whom it was asked of.

        :param at: unix seconds
        """
        asked = []
        for uuid, size in wanted.items():
            if self._reclaims.busy(uuid) or self._left_alone(self._reclaims.news(uuid), at, why):
                continue
            size = max(size, SMALLEST)
            self._reclaims.submit(uuid, size, reason=why, by=BY, psi_limit=self._psi_limit, time_to_live=self._hold_off)
            asked.append(uuid)
        return asked

    def withdraw(self, uuids: Iterable[str], why: str, asked: str | None = None) -> None:
        """Take back what the ladder asked of these VMs, whether it waits or goes on.

        :param asked: only what was asked for this reason
        """
        for uuid in uuids:
            self._reclaims.withdraw(uuid, BY, why, asked)

    def _left_alone(self, last: Reclaim | None, at: float, why: str) -> bool:
        if last is None or last.ended is None or at - last.ended >= self._hold_off:
            return False
        # One that the ladder itself took back, to ask for another reason, is no answer of the guest's.
        taken_back = last.request.by == BY and last.verdict.reason is Reason.INTERRUPTED
        return not (taken_back and last.request.reason != why)
