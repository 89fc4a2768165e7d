"""Marks that a VM takes along: what memhint changed in a guest or of its balloon comes with it to another host.

Without them the agent of that host would take a balloon that memhint inflated for somebody else's, and leave the VM
small; and a guest that reports finer than it would by itself for one that was made so.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence

from memhint.agent.view import HostSnapshot
from memhint.levers.lever import TakeUp
from memhint.objects.domain import DomainObservation, DomainState
from memhint.objects.ownership import Ledger, Mark
from memhint.planner.plan import Sight
from memhint.store.errors import StoreError
from memhint.virt.errors import VirtError

LOG = logging.getLogger(__name__)
_GONE = 3  # looks in a row without a VM, before marks on it are forgotten


class TravellingMarks:
    """The host's ledger, which writes marks of these knobs to the running domain, too. For several threads."""

    def __init__(
        self,
        ledger: Ledger,
        write: Callable[[str, Sequence[Mark]], None],
        knobs: Mapping[str, TakeUp],
        staying: Collection[str] = (),
    ) -> None:
        """:param write: lets a running domain carry marks; raises VirtError
        :param knobs: those whose setting goes where the VM goes
        :param staying: others of which nothing is left on a host that the VM has left
        """
        self._ledger = ledger
        self._write = write
        self._knobs = knobs
        self._ends = frozenset({*knobs, *staying})  # with the VM's time on this host
        self._arrived: dict[str, str] = {}  # by domain: the process whose marks have been taken up
        self._missed: dict[str, int] = {}

    def inherit(self, before: TravellingMarks) -> None:
        """Go on from an earlier one of this process: what a VM brought is taken up once. A mark that was given back may
        stand in a domain that did not take that word.
        """
        self._arrived, self._missed = dict(before._arrived), dict(before._missed)

    def put(self, mark: Mark) -> None:
        """See Ledger."""
        self._ledger.put(mark)
        self._carry(mark.subject, mark.knob)

    def get(self, subject: str, knob: str) -> Mark | None:
        """See Ledger."""
        return self._ledger.get(subject, knob)

    def remove(self, subject: str, knob: str) -> None:
        """See Ledger."""
        self._ledger.remove(subject, knob)
        self._carry(subject, knob)

    def all(self) -> tuple[Mark, ...]:
        """See Ledger."""
        return self._ledger.all()

    def follow(self, view: HostSnapshot) -> None:
        """Take up what VMs brought that are new here, and forget what belongs to VMs that have left."""
        if not view.seen.listed:
            return
        try:
            for one in view.seen.domains:
                # What one brought that still arrives, or is restored, is not known yet, nor how large its balloon is.
                if one.uuid in view.seen.unread or one.state is not DomainState.RUNNING or not one.defined:
                    continue
                if one.process is not None and self._arrived.get(one.uuid) != one.process.instance:
                    self._take_up(one, view.seen.marks.get(one.uuid, ()))
                    self._arrived[one.uuid] = one.process.instance
            if view.seen.sight is Sight.CLEAR:
                self._forget({one.uuid for one in view.seen.domains})
        except StoreError as error:
            LOG.error("what VMs brought along is taken up later: %s", error)

    def _take_up(self, domain: DomainObservation, brought: Sequence[Mark]) -> None:
        for found in brought:
            take_up = self._knobs.get(found.knob)
            mark = take_up(domain, found) if take_up is not None else None
            if mark is None:
                continue
            own = self._ledger.get(mark.subject, mark.knob)
            if own is None or own.instance != mark.instance:
                LOG.info("%s of %s is memhint's, it was %s before", mark.knob, domain.name, mark.before)
                self._ledger.put(mark)

    def _forget(self, present: Collection[str]) -> None:
        """Of VMs that have left: what was changed of them has left with them, or has ended.

        One that is only shut off is listed still.
        """
        marked = {mark.subject for mark in self._ledger.all() if mark.knob in self._ends}
        self._missed = {uuid: self._missed.get(uuid, 0) + 1 for uuid in marked if uuid not in present}
        for mark in self._ledger.all() if self._missed else ():
            if mark.knob in self._ends and self._missed.get(mark.subject, 0) >= _GONE:
                self._ledger.remove(mark.subject, mark.knob)
        self._arrived = {uuid: instance for uuid, instance in self._arrived.items() if uuid in present}

    def _carry(self, subject: str, knob: str) -> None:
        if knob not in self._knobs:
            return
        marks = [mark for mark in self._ledger.all() if mark.subject == subject and mark.knob in self._knobs]
        try:
            self._write(subject, marks)
        except VirtError as error:
            # They hold on this host; a VM that leaves now leaves without them.
            LOG.warning("marks of %s are not in its domain: %s", subject, error)
