"""QoS classes: a few short kernel files per VM, written within the cycle."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable

from memhint.agent.runners.runner import LeverRunner, RunnerContext
from memhint.agent.view import HostSnapshot
from memhint.levers.qos import QosLever
from memhint.levers.qos_wish import QosTarget
from memhint.objects.domain import DomainObservation
from memhint.objects.lever import LeverName, LeverState
from memhint.objects.verdict import Answer
from memhint.planner.demand import on_pools
from memhint.planner.plan import Planned
from memhint.store.errors import StoreError

LOG = logging.getLogger(__name__)


class QosRunner(LeverRunner):
    """The classes of every VM."""

    names = (LeverName.QOS,)

    def __init__(self, lever: QosLever, *, overhead: int, reserve: Callable[[int], int], dry_run: bool = False) -> None:
        """:param overhead: bytes of QEMU's own memory
        :param reserve: what the host keeps of a pool, both in bytes
        """
        self._lever = lever
        self._overhead = overhead
        self._reserve = reserve
        self._dry_run = dry_run
        self._states: dict[str, LeverState] = {}

    def pull(self, view: HostSnapshot, planned: Planned) -> None:
        """In every cycle: systemd may have put its own values back meanwhile."""
        if not view.seen.listed:
            return
        targets = [QosTarget(one, view.policies[one.uuid].qos, self._size(one)) for one in view.known]
        pool = view.seen.host.pool
        try:
            self._states = self._lever.reconcile(targets, pool - self._reserve(pool), dry_run=self._dry_run)
        except StoreError as error:
            LOG.error("what holds for the classes goes on, the marks cannot be read: %s", error)

    def states(self, view: HostSnapshot, planned: Planned) -> Iterable[LeverState]:
        """The class of each VM, as the last pull left it."""
        return [state for one in view.seen.domains if (state := self._states.get(one.uuid)) is not None]

    def undo(self, view: HostSnapshot, deadline: float) -> list[str]:
        """Put back every file. That takes no list of VMs: the marks say which files they are."""
        try:
            verdict = self._lever.undo()
        except StoreError as error:
            return [f"qos: {error}"]
        # What somebody else has set since is theirs: there is nothing left to put back.
        return [f"qos: {verdict}"] if verdict.answer is Answer.FAILED else []

    def _size(self, domain: DomainObservation) -> int:
        """Explicit huge pages are charged to no memory cgroup: what is left to protect is the rest, and QEMU itself."""
        return domain.facts.memory - on_pools(domain, self._overhead) + self._overhead


def build(context: RunnerContext) -> QosRunner:
    """The runner of a host."""
    return QosRunner(
        QosLever(context.root, context.ledger, context.boot, time.time),
        overhead=context.settings.overhead,
        reserve=context.settings.reserve_of,
        dry_run=context.dry_run,
    )
