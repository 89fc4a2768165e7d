"""When a VM is asked for what the rung `cache` wishes of it, and when that is taken back.

The same for idle VMs of a calm host, where the settings say that this rung always holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from memhint.objects.domain import DomainObservation
from memhint.objects.reclaim import SMALLEST, Reclaim
from memhint.objects.verdict import Reason
from memhint.planner.relief.relieve import CALM, PRESSED

BY = "ladder"
LONGEST = 3600.0
"""Seconds that an idle VM is left alone at most, however often it was asked."""


@dataclass(frozen=True, slots=True)
class Withdrawal:
    """What the ladder asked of these VMs is taken back, whether it waits or goes on."""

    uuids: tuple[str, ...]
    why: str
    asked: str | None = None  # only what was asked for this reason


class CacheAsks:
    """What the ladder asked of whom. Bytes and unix seconds."""

    def __init__(self, hold_off: float, *, always: bool) -> None:
        """:param hold_off: seconds for which a guest that gave something, or refused, is left alone
        :param always: whether idle VMs of a calm host are asked, too
        """
        self._hold_off = hold_off
        self._always = always
        self._asked: dict[str, tuple[float, float]] = {}  # idle VMs: when it was, and the wait from then on

    def withdrawal(self, domains: Iterable[DomainObservation], idle: frozenset[str], *, pressed: bool) -> Withdrawal:
        """What is taken back before anything more is asked.

        :param idle: QEMU processes
        :param pressed: whether the rung is entered
        """
        if pressed:  # what was asked of idle VMs would keep what is short from being asked for
            return Withdrawal(tuple(one.uuid for one in domains), f"{PRESSED} now", asked=CALM)
        left = idle if self._always else frozenset()
        busy = tuple(one.uuid for one in domains if one.process is None or one.process.instance not in left)
        for uuid in busy:  # once it is idle again it is asked at once
            self._asked.pop(uuid, None)
        why = "the host is not under pressure" + (", and the VM not idle any more" if self._always else " any more")
        return Withdrawal(busy, why)

    def due(
        self, wished: Mapping[str, int], free: Mapping[str, Reclaim | None], at: float, *, pressed: bool
    ) -> dict[str, int]:
        """What is asked for now, by domain UUID: of the wishes for VMs that may be asked again.

        :param free: VMs of which nothing goes on or waits, and what became of the newest request to each
        """
        why = PRESSED if pressed else CALM
        found = {
            uuid: max(size, SMALLEST)
            for uuid, size in wished.items()
            if uuid in free and (pressed or self._rested(uuid, at)) and not self._left_alone(free[uuid], at, why)
        }
        if not pressed:
            self._remember(found, at)
        return found

    def _rested(self, uuid: str, at: float) -> bool:
        before, wait = self._asked.get(uuid, (at, 0.0))
        return abs(at - before) >= wait

    def _remember(self, asked: Iterable[str], at: float) -> None:
        """Each idle VM is asked after twice the time.

        One that reads files at a steady pace is as large as before, and so idle: it fills what it gives, and asking it
        again and again would cost it its cache for nothing.
        """
        for uuid in asked:
            _, wait = self._asked.get(uuid, (at, self._hold_off / 2))
            self._asked[uuid] = (at, min(2 * wait, LONGEST))
        self._asked = {uuid: one for uuid, one in self._asked.items() if at - one[0] <= 2 * LONGEST}

    def _left_alone(self, last: Reclaim | None, at: float, why: str) -> bool:
        # A clock that was set back must not have it left alone until the time that it showed before.
        if last is None or last.ended is None or abs(at - last.ended) >= self._hold_off:
            return False
        # One that the ladder itself took back, to ask for another reason, is no answer of the guest's.
        taken_back = last.request.by == BY and last.verdict.reason is Reason.INTERRUPTED
        return not (taken_back and last.request.reason != why)
