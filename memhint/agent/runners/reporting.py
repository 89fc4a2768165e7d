"""Page reporting: pulled within the conversations with guests, which look at them as well."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Self

from memhint.agent.guest_reporting import GuestReporting
from memhint.agent.guests import Guests
from memhint.agent.runners.runner import LeverRunner, RunnerContext
from memhint.agent.view import HostSnapshot
from memhint.objects.lever import LeverName, LeverState
from memhint.objects.tuning import GUESTS_OWN
from memhint.planner.plan import Planned
from memhint.virt.config import NextBoot


class ReportingRunner(LeverRunner):
    """The reporting lever of every VM. Guests are asked all at a time, each for as long as it takes."""

    names = (LeverName.REPORTING,)
    share = 0.35

    def __init__(self, guests: Guests, reporting: GuestReporting) -> None:
        self._guests, self._reporting = guests, reporting
        guests.pull_within(reporting)

    def pull(self, view: HostSnapshot, planned: Planned) -> None:
        """Begin the conversations that are due."""
        if view.seen.listed:
            self._guests.follow(view.known, view.policies, planned.plan.relief.tuning)

    def states(self, view: HostSnapshot, planned: Planned) -> Iterable[LeverState]:
        """What the last conversation with each guest brought."""
        for one in view.seen.domains:
            policy, tuning = view.policies[one.uuid], planned.plan.relief.tuning.get(one.uuid, GUESTS_OWN)
            verdict = self._reporting.verdict(one.uuid, policy, tuning)
            yield self._reporting.lever.state(one, policy.reporting, verdict)

    def undo(self, view: HostSnapshot, deadline: float) -> list[str]:
        """Put back each guest's own settings; of all VMs, also where nothing else may be done to one."""
        if not view.seen.listed:
            return []
        left = self._guests.undo(view.seen.domains, view.policies, deadline)
        return [f"reporting of {uuid}: {verdict}" for uuid, verdict in left.items()]

    def redefined(self, uuid: str) -> None:
        """Tell the lever, which looks at a definition once."""
        self._reporting.lever.redefined(uuid)

    def host_ends(self) -> None:
        """Definitions stay as they are, with their marks: libvirt starts VMs by them before there is an agent again."""
        self._reporting.keep_next_boot()

    def settle(self, timeout: float) -> bool:
        """Whether every guest's conversation has had an outcome. Waits for none: each has a time limit of its own."""
        return self._guests.settled()

    def inherit(self, before: Self) -> None:
        """Go on from what guests said, and wait for its conversations that are still under way, guest by guest."""
        self._guests.inherit(before._guests)
        self._reporting.inherit(before._reporting)

    def close(self) -> None:
        """End all conversations."""
        self._guests.close()


def build(context: RunnerContext) -> ReportingRunner:
    """The runner of a host."""
    reporting = GuestReporting(
        context.ledger,
        lambda uuid: NextBoot(context.caller, uuid),
        context.conf.reporting.order,
        dry_run=context.dry_run,
        note=context.note,
    )
    return ReportingRunner(context.guests, reporting)
