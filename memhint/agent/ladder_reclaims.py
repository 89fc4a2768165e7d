"""The cache rung of the pressure ladder: reclaims are asked for while it is entered, and taken back when it is left."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from memhint.agent.reclaims import Reclaims
from memhint.objects.reclaim import SMALLEST

BY = "ladder"
_WHY = "the host is under pressure"


class LadderReclaims:
    """What the ladder asked of whom. Bytes and seconds."""

    def __init__(self, reclaims: Reclaims, psi_limit: float, hold_off: float) -> None:
        """:param psi_limit: percent of a guest's own memory pressure at which it stops
        :param hold_off: seconds for which a guest that gave something, or refused, is left alone
        """
        self._reclaims = reclaims
        self._psi_limit = psi_limit
        self._hold_off = hold_off

    def ask(self, wanted: Mapping[str, int], at: float) -> None:
        """Ask for what is wanted now, by domain UUID.

        :param at: unix seconds
        """
        for uuid, size in wanted.items():
            last = self._reclaims.news(uuid)
            if self._reclaims.busy(uuid):
                continue
            if last is not None and last.ended is not None and at - last.ended < self._hold_off:
                continue
            size = max(size, SMALLEST)
            self._reclaims.submit(
                uuid, size, reason=_WHY, by=BY, psi_limit=self._psi_limit, time_to_live=self._hold_off
            )

    def withdraw(self, uuids: Iterable[str]) -> None:
        """Take back what the ladder asked of these VMs and goes on."""
        for uuid in uuids:
            last = self._reclaims.news(uuid)
            if last is not None and last.request.by == BY and not last.state.ended:
                self._reclaims.cancel(last.request.id, "the host is not under pressure any more")
