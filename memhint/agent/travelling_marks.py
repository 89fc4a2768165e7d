"""Marks that a VM takes along: what memhint changed in a guest or of its balloon comes with it to another host.

Without them the agent of that host would not know what memhint did. It would take an inflated balloon for somebody
else's and leave the VM small, and it would take a guest's finer reporting for the guest's own setting.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

from memhint.agent.runners.one_pass import OnePass
from memhint.agent.turns import Turns
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
        self._turns = Turns()
        self._lock = threading.Lock()  # guards what follows
        self._late: set[str] = set()  # VMs whose domains may not carry what the ledger has
        self._again = OnePass("marks")

    def inherit(self, before: TravellingMarks) -> None:
        """Go on from an earlier one of this process: what a VM brought is taken up once. A mark that was given back may
        stand in a domain that did not take that word.
        """
        self._arrived, self._missed = dict(before._arrived), dict(before._missed)
        # Of the earlier one a lever may still be at work.
        self._turns, self._lock, self._late, self._again = before._turns, before._lock, before._late, before._again

    def settle(self, timeout: float) -> bool:
        """Wait for domains that are written to again, ``timeout`` seconds at most; whether that is done."""
        return self._again.settle(timeout)

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

    def of(self, subject: str) -> tuple[Mark, ...]:
        """See Ledger."""
        return self._ledger.of(subject)

    def all(self) -> tuple[Mark, ...]:
        """See Ledger."""
        return self._ledger.all()

    def follow(self, view: HostSnapshot) -> None:
        """Take up what VMs brought that are new here, and forget what belongs to VMs that have left.

        Domains that do not carry what they should are written to again; nobody waits for that.
        """
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
        except StoreError as error:  # all of them are looked at again in the next cycle
            LOG.error("what VMs brought along is taken up later: %s", error)
        with self._lock:
            late = sorted(self._late & {one.uuid for one in view.seen.domains if one.process is not None})
        if late:
            self._again.begin(lambda: self._carry_again(late))

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
        carried = {replace(mark, at=0.0) for mark in brought}
        if any(replace(mark, at=0.0) not in carried for mark in self._travelling(domain.uuid)):
            with self._lock:
                self._late.add(domain.uuid)

    def _forget(self, present: set[str]) -> None:
        """Of VMs that have left: what was changed of them has left with them, or has ended.

        One that is only shut off is listed still.
        """
        ending = [mark for mark in self._ledger.all() if mark.knob in self._ends and mark.subject not in present]
        self._missed = {uuid: self._missed.get(uuid, 0) + 1 for uuid in {mark.subject for mark in ending}}
        for mark in ending:
            if self._missed[mark.subject] >= _GONE:
                self._ledger.remove(mark.subject, mark.knob)
        self._arrived = {uuid: instance for uuid, instance in self._arrived.items() if uuid in present}
        self._turns.retain(present)
        with self._lock:
            self._late &= present

    def _carry(self, subject: str, knob: str) -> None:
        if knob not in self._knobs:
            return
        try:
            self._write_all(subject)
        except VirtError as error:
            # They hold on this host; a VM that leaves now leaves without them.
            LOG.warning("marks of %s are not in its domain: %s", subject, error)

    def _carry_again(self, late: Sequence[str]) -> None:
        for subject in late:
            try:
                self._write_all(subject)
            except (VirtError, StoreError) as error:
                LOG.debug("marks of %s are not in its domain yet: %s", subject, error)

    def _write_all(self, subject: str) -> None:
        """All that the ledger has of one VM, in one step: what is marked meanwhile is written after it."""
        with self._turns.of(subject):
            with self._lock:
                self._late.add(subject)
            self._write(subject, self._travelling(subject))
            with self._lock:
                self._late.discard(subject)

    def _travelling(self, subject: str) -> list[Mark]:
        return [mark for mark in self._ledger.of(subject) if mark.knob in self._knobs]
