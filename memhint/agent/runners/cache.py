"""Cache: requests of operators, and of the pressure ladder, each worked on beside the cycle."""

from __future__ import annotations

from collections.abc import Iterable

from memhint.agent.ladder_reclaims import LadderReclaims
from memhint.agent.reclaims import Reclaims
from memhint.agent.runners.runner import LeverRunner
from memhint.agent.view import HostView
from memhint.objects.ladder import Rung
from memhint.objects.lever import LeverName, LeverState
from memhint.planner.plan import Planned
from memhint.planner.relief.relieve import CALM, PRESSED


class CacheRunner(LeverRunner):
    """The cache lever of every VM."""

    names = (LeverName.CACHE,)
    share = 0.05

    def __init__(
        self, reclaims: Reclaims, *, psi_limit: float, hold_off: float, always: bool, dry_run: bool = False
    ) -> None:
        """:param psi_limit: percent of a guest's own memory pressure at which what the ladder asks for stops
        :param hold_off: seconds for which a guest that gave something, or refused, is left alone by the ladder
        :param always: whether idle VMs of a calm host are asked, too
        """
        self._reclaims = reclaims
        self._ladder = LadderReclaims(reclaims, psi_limit, hold_off)
        self._always = always
        self._dry_run = dry_run

    def pull(self, view: HostView, planned: Planned) -> None:
        """Ask for what the plan wishes, take back what it does not wish any more, and go on with what was asked for."""
        if view.seen.listed and not self._dry_run:
            self._ask(view, planned)
            self._reclaims.follow(view.known, view.policies)

    def states(self, view: HostView, planned: Planned) -> Iterable[LeverState]:
        """What came of the newest request of each VM."""
        return (self._reclaims.state(one) for one in view.seen.domains)

    def undo(self, view: HostView, deadline: float) -> list[str]:
        """End what goes on. There is nothing to put back: a guest reads again what it needs."""
        if view.seen.listed:
            self._reclaims.close(deadline)
        return []

    def close(self) -> None:
        """End what goes on after its call."""
        self._reclaims.close()

    def _ask(self, view: HostView, planned: Planned) -> None:
        wished = planned.plan.relief.cache
        if Rung.CACHE in planned.state.ladder.rungs:
            # What was asked of idle VMs would keep what is short from being asked for.
            self._ladder.withdraw((one.uuid for one in view.seen.domains), f"{PRESSED} now", asked=CALM)
            self._ladder.ask(wished, view.at, PRESSED)
        else:
            self._ladder.ask_idle(wished, view.at, CALM)
            idle = planned.state.idle if self._always else frozenset()
            busy = [one.uuid for one in view.seen.domains if one.process is None or one.process.instance not in idle]
            why = "the host is not under pressure" + (", and the VM not idle any more" if self._always else " any more")
            self._ladder.withdraw(busy, why)
            self._ladder.woke(busy)
