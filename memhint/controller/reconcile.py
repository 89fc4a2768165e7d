"""What hosts should know and do not, told by their reports: operators' wishes, and requests to reclaim.

Nothing is remembered of what was sent: a report shows whether it arrived. So it is sent again, by whichever controller
takes the next report, until it did.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence

from memhint.bus.courier import Command
from memhint.controller.messages import interrupt_command, policy_command, reclaim_command
from memhint.objects.policy import Origin, Policy
from memhint.objects.report import Report
from memhint.store import Store


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

    def look(self, reports: Sequence[Report]) -> None:
        """Send the hosts of these reports what they lack.

        :raises StoreError: when the store cannot be read
        """
        now = self._clock()
        self._sent = {host: at for host, at in self._sent.items() if now - at < self._resend}
        due = {one.host: one for one in reports if one.host not in self._sent}
        if not due:
            return
        for command in (*self._policies(due), *self._reclaims(due)):
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


def operators(policy: Policy) -> dict[str, str]:
    """What an operator wished, as a host has it."""
    return {name: one.value for name, one in policy.settings.items() if one.origin is Origin.OPERATOR}
