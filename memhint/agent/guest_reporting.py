"""The reporting lever within conversations with guests: one pull of a guest at a time, and what became of the last."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection

from memhint.agent.guest_lever import GuestLever, GuestWish
from memhint.agent.turns import Turns
from memhint.guest.capabilities import read_capabilities
from memhint.guest.errors import GuestCommandMissing, GuestError, GuestTimeout
from memhint.guest.protocol import GuestAgent
from memhint.guest.reporting_knob import read_guest_kernel
from memhint.levers.reporting import KNOBS, ReportingLever, ReportingTarget
from memhint.levers.reporting_next_boot import NEXT_BOOT_KNOB, NextBootConfig
from memhint.objects.guest import GuestKernel
from memhint.objects.lever import LeverState
from memhint.objects.ownership import Ledger
from memhint.objects.policy import Mode, Policy
from memhint.objects.tuning import Tuning
from memhint.objects.verdict import Answer, Reason, Verdict
from memhint.store.errors import StoreError

LOG = logging.getLogger(__name__)


class GuestReporting(GuestLever):
    """For several threads: each conversation pulls within itself, and an undo waits for the pull under way."""

    def __init__(
        self,
        ledger: Ledger,
        next_boot: Callable[[str], NextBootConfig],
        order: int,
        *,
        dry_run: bool = False,
        wall: Callable[[], float] = time.time,
        note: Callable[[LeverState], None] = lambda state: None,
    ) -> None:
        """:param note: told of every outcome of a pull"""
        self.lever = ReportingLever(ledger, self._read_kernel, order, wall)
        self._wall = wall
        self._ledger = ledger
        self._next_boot = next_boot
        self._dry_run = dry_run
        self._note = note
        self._lock = threading.Lock()
        self._stopping = False
        self._kept: Collection[str] = ()  # knobs that are not put back
        self._pulling = Turns()  # one pull or undo of a guest at a time
        self._verdicts: dict[str, tuple[tuple[Policy, Tuning], Verdict]] = {}

    def inherit(self, before: GuestReporting) -> None:
        """Wait for the pulls of an earlier one of this process that are still under way: what they mark they may not
        have done yet, and it would look like put back.
        """
        self._pulling = before._pulling

    def pull(self, wish: GuestWish, agent: GuestAgent | None, trouble: GuestError | None = None) -> bool:
        """Pull the lever; True when something was changed in the guest.

        :param agent: the conversation in which the guest's kernel and memory were just read; None where there is none
        :param trouble: why there is none, or what the guest's agent cannot do
        """
        uuid, fresh = wish.domain.uuid, agent is not None
        target = ReportingTarget(wish.domain, wish.policy, agent, self._next_boot(uuid), wish.tuning, fresh)
        with self._pulling.of(uuid):
            if self._stopping:
                return False
            verdict = self._pull(target, wish.policy.reporting, dry_run=self._dry_run)
        if trouble is not None and verdict.reason is Reason.NO_GUEST_AGENT:
            # An agent that was too slow is there: the next conversation may well find it.
            slow = isinstance(trouble, GuestTimeout)
            why = trouble.verdict if isinstance(trouble, GuestCommandMissing) else verdict.reason
            verdict = Verdict(
                Answer.PENDING if slow else verdict.answer,
                Reason.GUEST_TIMEOUT if slow else why,
                f"{verdict.detail}: {trouble.detail}",
            )
        self._note(self.lever.state(wish.domain, wish.policy.reporting, verdict))
        with self._lock:
            self._verdicts[uuid] = (wish.wished, verdict)
        return verdict.answer is Answer.APPLIED

    def verdict(self, uuid: str, policy: Policy, tuning: Tuning) -> Verdict:
        """What became of the last pull of this VM's reporting under these wishes."""
        with self._lock:
            pulled = self._verdicts.get(uuid)
        if pulled is None or pulled[0] != (policy, tuning):
            return Verdict(Answer.PENDING, Reason.NONE, "the guest has not been asked yet")
        return pulled[1]

    def stop(self) -> None:
        """Pull no more: a conversation that goes on must not pull again what is put back."""
        with self._lock:
            self._stopping = True

    def put_back(self, wish: GuestWish, agent: GuestAgent | None) -> Verdict:
        """Undo what memhint changed in this guest."""
        target = ReportingTarget(wish.domain, wish.policy, agent, self._next_boot(wish.domain.uuid), kept=self._kept)
        with self._pulling.of(wish.domain.uuid):
            return self._pull(target, Mode.AUTO, dry_run=False)

    def owned(self, among: Collection[str]) -> set[str]:
        """The VMs of these that bear a mark of what is to be put back."""
        knobs = KNOBS.difference(self._kept)
        return {mark.subject for mark in self._ledger.all() if mark.subject in among and mark.knob in knobs}

    def touched(self, among: Collection[str]) -> set[str]:
        """Those, and the VMs of these with a pull under way: it may have begun before `stop`, and not marked yet."""
        pulling = self._pulling.taken()  # before the marks are read, lest one that ends in between is missed
        return pulling & set(among) | self.owned(among)

    def keep_next_boot(self) -> None:
        """What VMs have for their next start is not put back: they start before the next agent does."""
        self._kept = (NEXT_BOOT_KNOB,)

    def retain(self, uuids: Collection[str]) -> None:
        """Forget all other VMs."""
        with self._lock:
            for uuid in set(self._verdicts) - set(uuids):
                del self._verdicts[uuid]
        self._pulling.retain(uuids)
        self.lever.retain(uuids)

    def _pull(self, target: ReportingTarget, desired: Mode, *, dry_run: bool) -> Verdict:
        try:
            return self.lever.pull(target, desired, dry_run=dry_run)
        except StoreError as error:
            # No failure of the guest's: what it said in this conversation holds, and it is asked again as always.
            LOG.error("the marks of %s cannot be used: %s", target.domain.name, error)
            return Verdict(Answer.FAILED, Reason.HYPERVISOR, f"its marks cannot be used: {error}")

    def _read_kernel(self, agent: GuestAgent) -> GuestKernel:
        return read_guest_kernel(agent, self._wall(), read_capabilities(agent))
