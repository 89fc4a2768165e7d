"""Cache: requests of operators, and of the pressure ladder, each worked on beside the cycle."""

from __future__ import annotations

from collections.abc import Iterable

from memhint.agent.reclaims import Reclaims
from memhint.agent.runners.runner import LeverRunner, RunnerContext
from memhint.agent.view import HostSnapshot
from memhint.kernel.errors import KernelInterfaceError
from memhint.kernel.process import process_memory
from memhint.kernel.root import PAGE_SIZE
from memhint.objects.domain import DomainObservation
from memhint.objects.ladder import Rung
from memhint.objects.lever import LeverName, LeverState
from memhint.objects.report import STALE_PERIODS
from memhint.planner.plan import Planned
from memhint.planner.relief.cache_asks import BY, CacheAsks
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
        self._asks = CacheAsks(hold_off, always=always)
        self._psi_limit = psi_limit
        self._hold_off = hold_off
        self._dry_run = dry_run

    def pull(self, view: HostSnapshot, planned: Planned) -> None:
        """Ask for what the plan wishes, take back what it does not wish any more, and go on with what was asked for."""
        if view.seen.listed and not self._dry_run:
            self._ask(view, planned)
            self._reclaims.follow(view.known, view.policies)

    def states(self, view: HostSnapshot, planned: Planned) -> Iterable[LeverState]:
        """What came of the newest request of each VM."""
        return (self._reclaims.state(one) for one in view.seen.domains)

    def undo(self, view: HostSnapshot, deadline: float) -> list[str]:
        """End what goes on. There is nothing to put back: a guest reads again what it needs."""
        if view.seen.listed:
            self._reclaims.close(deadline)
        return []

    def close(self) -> None:
        """End what goes on after its call."""
        self._reclaims.close()

    def _ask(self, view: HostSnapshot, planned: Planned) -> None:
        pressed = Rung.CACHE in planned.state.ladder.rungs
        back = self._asks.withdrawal(view.seen.domains, planned.state.idle, pressed=pressed)
        for uuid in back.uuids:
            self._reclaims.withdraw(uuid, BY, back.why, back.asked)
        wished = planned.plan.relief.cache
        free = {uuid: self._reclaims.news(uuid) for uuid in wished if not self._reclaims.busy(uuid)}
        for uuid, size in self._asks.due(wished, free, view.at, pressed=pressed).items():
            self._reclaims.submit(
                uuid,
                size,
                reason=PRESSED if pressed else CALM,
                by=BY,
                psi_limit=self._psi_limit,
                time_to_live=self._hold_off,
            )


def build(context: RunnerContext) -> CacheRunner:
    """The runner of a host."""

    def footprint(domain: DomainObservation) -> int | None:
        """What this very process costs now; None where it is another one by now."""
        if domain.process is None:
            return None
        try:
            memory = process_memory(context.root, domain.process.pid, PAGE_SIZE)
        except KernelInterfaceError:
            return None
        return memory.footprint if memory.instance == domain.process.instance else None

    guest, settings = context.conf.guest, context.settings
    return CacheRunner(
        Reclaims(context.guests, context.reclaims, footprint, at_once=guest.in_flight, hold_every=guest.interval),
        psi_limit=settings.ladder.psi_limit,
        hold_off=STALE_PERIODS * settings.period,
        always=Rung.CACHE in settings.ladder.always,
        dry_run=context.dry_run,
    )
