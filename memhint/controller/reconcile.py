"""What hosts should know and do not, told by their reports: operators' wishes, requests to reclaim, the growth table.

Nothing is remembered of what was sent: a report shows whether it arrived. So it is sent again, by whichever controller
takes the next report, until it did.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence

from memhint.bus.courier import Command
from memhint.controller.messages import growth_command, interrupt_command, policy_command, reclaim_command
from memhint.objects.policy import Origin, Policy
from memhint.objects.report import Report
from memhint.planner.growth import GrowthTable
from memhint.store import Store
from memhint.store.errors import StoreDamaged

LOG = logging.getLogger(__name__)


class Reconciler:
    """Compares reports with the store, and sends what is missing."""

    def __init__(
        self,
        store: Store,
        send: Callable[[Command], None],
        resend: float,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        """:param resend: seconds, at least, between two times that this controller sends something to one host."""
        self._store = store
        self._send = send
        self._resend = resend
        self._clock = clock
        self._wall = wall
        self._sent: dict[str, float] = {}
        self._growth: tuple[float, GrowthTable | None] | None = None  # when it was read

    def look(self, reports: Sequence[Report]) -> None:
        """Send the hosts of these reports what they lack.

        :raises StoreError: when the store cannot be read
        """
        now = self._clock()
        self._sent = {host: at for host, at in self._sent.items() if now - at < self._resend}
        due = {one.host: one for one in reports if one.host not in self._sent}
        if not due:
            return
        for command in (*self._policies(due), *self._reclaims(due), *self._tables(due)):
            self._sent[command.host] = now
            self._send(command)

    def _policies(self, due: dict[str, Report]) -> Iterator[Command]:
        for host, held in self._store.central_policies.on(list(due)).items():
            for one in due[host].domains:
                wishes = held.get(one.observation.uuid)
                if wishes is not None and operators(one.policy) != wishes.values:
                    yield policy_command(host, wishes, due[host].epoch)

    def _reclaims(self, due: dict[str, Report]) -> Iterator[Command]:
        now = self._wall()
        for one in self._store.reclaims.waiting(list(due)):
            epoch = due[one.host].epoch
            if one.interrupted is not None:
                yield interrupt_command(one, one.interrupted, now, epoch)
            elif one.reclaim.request.expires > now:
                yield reclaim_command(one, now, epoch)

    def _tables(self, due: dict[str, Report]) -> Iterator[Command]:
        now = self._clock()
        # It changes some times a day, and is looked for no more often than it could be sent again.
        if self._growth is None or now - self._growth[0] >= self._resend:
            try:
                self._growth = (now, self._store.growth.newest())
            except StoreDamaged as error:
                LOG.error("no growth table is sent until a new one is made: %s", error)
                self._growth = (now, None)
        table = self._growth[1]
        for host, one in due.items():
            if table is not None and one.growth is not None and one.growth != table.version:
                yield growth_command(host, table, one.epoch)


def operators(policy: Policy) -> dict[str, str]:
    """What an operator wished, as a host has it."""
    return {name: one.value for name, one in policy.settings.items() if one.origin is Origin.OPERATOR}
