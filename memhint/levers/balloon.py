"""The balloon: shrink an idle best-effort VM under pressure, and give it all back afterwards.

A guest whose balloon is inflated can run out of memory of its own. Only a balloon that deflates before the guest kills
a process is used (``autodeflate='on'``), only where the VM's policy allows it, and never below the VM's minimum. The
next step waits until the guest was read with the last one done: what it uses is known for that size of its balloon.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Protocol

from memhint.kernel.process import instance_runs
from memhint.levers.lever import LeverContext, Stop, TakeUp, VmLever
from memhint.levers.reached import ENDED, REPLACED, Reached
from memhint.objects.domain import DomainObservation, DomainState
from memhint.objects.lever import LeverName, LeverState, Observed
from memhint.objects.ownership import Ledger, Mark
from memhint.objects.policy import Policy, QosClass
from memhint.objects.units import MIB
from memhint.objects.verdict import Answer, Reason, Verdict
from memhint.planner.splits import splits_by_balloon
from memhint.planner.splits import words as splits_words
from memhint.virt.balloon import BalloonTarget
from memhint.virt.errors import VirtError

BALLOON_KNOB = "libvirt balloon target"
TOLERANCE = 1 * MIB  # libvirt's target is in KiB, and a guest may stop a few pages early


class Target(Protocol):
    """A domain's balloon."""

    def set(self, size: int) -> None:
        """Ask for ``size`` bytes to be left."""


class BalloonLever(VmLever):
    """The balloon per VM."""

    name = LeverName.BALLOON
    travels = (BALLOON_KNOB,)

    def __init__(
        self,
        ledger: Ledger,
        target: Callable[[str], Target],
        now: Callable[[], float],
        runs: Callable[[str], bool],
    ) -> None:
        """:param target: the balloon of a domain, by UUID
        :param runs: whether a QEMU process runs, by its instance
        """
        self._ledger = ledger
        self._target = target
        self._now = now
        self._asked: Reached[int] = Reached(runs)
        # By UUID, the process, what its balloon leaves it, and since when that was seen.
        self._sizes: dict[str, tuple[str, int, float]] = {}

    def probe(self, domain: DomainObservation) -> Verdict:
        """Whether this VM's balloon can be used at all, its policy aside."""
        if domain.state is not DomainState.RUNNING or domain.process is None:
            return Verdict(Answer.UNSUPPORTED, Reason.NOT_RUNNING, f"the VM is {domain.state}")
        if not domain.facts.balloon:
            return Verdict(Answer.UNSUPPORTED, Reason.DEVICE, "the VM has no virtio balloon")
        if not domain.facts.deflate_on_oom:
            detail = "its balloon does not deflate by itself: start it with autodeflate='on'"
            return Verdict(Answer.UNSUPPORTED, Reason.DEVICE, detail)
        if domain.balloon_actual is None:
            return Verdict(Answer.UNSUPPORTED, Reason.GUEST_ANSWER, "libvirt does not tell the balloon's size")
        return Verdict(Answer.UNCHANGED)

    def read(self, domain: DomainObservation) -> Observed:
        """Whether the balloon holds any of the VM's memory."""
        if domain.state is not DomainState.RUNNING or not domain.facts.balloon:
            return Observed.UNSUPPORTED
        if domain.balloon_actual is None:
            return Observed.UNKNOWN
        return Observed.ON if domain.balloon_actual < domain.facts.memory - TOLERANCE else Observed.OFF

    def state(self, domain: DomainObservation, policy: Policy, wish: int | None, verdict: Verdict | None) -> LeverState:
        """The lever's three fields for one VM."""
        desired = "auto" if wish is None else f"{wish // MIB} MiB"
        return LeverState(self.name, domain.uuid, desired, self.read(domain), verdict or self.probe(domain))

    def owned(self) -> dict[str, Mark]:
        """What memhint took, by domain UUID.

        :raises StoreError: when the store cannot be read
        """
        marks = {mark.subject: mark for mark in self._ledger.all() if mark.knob == BALLOON_KNOB}
        self._asked.retain(marks)
        self._sizes = {uuid: size for uuid, size in self._sizes.items() if uuid in marks}
        return marks

    def pull(
        self, domain: DomainObservation, policy: Policy, wish: int | None, *, dry_run: bool, stop: Stop = lambda: False
    ) -> Verdict:
        """Leave the VM ``wish`` bytes, or say why not; None gives back what memhint took."""
        mark = self._ledger.get(domain.uuid, BALLOON_KNOB)
        process = domain.process
        if mark is not None and process is not None and mark.instance != process.instance:
            if domain.state is not DomainState.RUNNING or not domain.defined:
                detail = "it is not known yet whether the VM was restored, with its balloon as it was"
                return Verdict(Answer.PENDING, Reason.NOT_RUNNING, detail)
            if self._asked.runs(mark.instance):
                return REPLACED
            if domain.facts.balloon and self._asked.of(domain.uuid, mark.instance) is None:
                # What that one was asked for may have come to this one.
                return self._give_back(domain, mark, dry_run=dry_run)
            self._ledger.remove(domain.uuid, BALLOON_KNOB)  # the VM has started since, with all of its memory
            mark = None
        if mark is not None and _smaller_since(domain, mark):
            if not dry_run:
                self._ledger.remove(domain.uuid, BALLOON_KNOB)
            detail = "somebody has set a smaller balloon target since, and it is left so"
            return Verdict(Answer.CONFLICT, Reason.OTHER_MANAGER, detail)
        if wish is None:
            return self._give_back(domain, mark, dry_run=dry_run)
        support = self.probe(domain)
        if not support.ok:
            return support
        actual = domain.balloon_actual
        assert process is not None  # probe saw to both
        assert actual is not None
        refusal = _refusal(domain, policy, wish, mark, actual)
        if refusal is not None:
            return refusal
        told = self._told(domain, process.instance, actual)
        asked = self._asked.of(domain.uuid, process.instance)
        if mark is not None and wish < (asked or int(mark.after)) and not told:
            return Verdict(
                Answer.PENDING, Reason.NONE, "the guest has not said yet what it uses since its balloon changed"
            )
        # Below a target that it has come up to, it goes by somebody else's; before, it may be on its way from the last.
        least = int(mark.after) if mark is not None else wish
        if asked is not None and actual >= asked - TOLERANCE:
            least = asked
        if mark is not None and asked == wish:
            if mark.after != str(least) and not dry_run:
                self._ledger.put(replace(mark, after=str(least)))
            return Verdict(Answer.UNCHANGED)
        words = f"{actual // MIB} to {wish // MIB} MiB"
        if dry_run:
            splits = splits_words(splits_by_balloon(domain, wish))
            return Verdict(Answer.PLANNED, Reason.DRY_RUN, f"balloon the VM from {words}; {splits}")
        if not self._asked.runs(process.instance):
            return ENDED
        after = str(min(wish, least))
        self._ledger.put(Mark(domain.uuid, BALLOON_KNOB, str(actual), after, process.instance, self._now()))
        self._asked.forget(domain.uuid)
        try:
            self._target(domain.uuid).set(wish)
        except VirtError as error:
            return Verdict(Answer.FAILED, Reason.HYPERVISOR, error.detail)
        self._asked.note(domain.uuid, process.instance, wish)
        return Verdict(Answer.APPLIED, Reason.NONE, words)

    def _told(self, domain: DomainObservation, instance: str, actual: int) -> bool:
        """Whether the guest was read after its balloon had the size that it has now."""
        known = self._sizes.get(domain.uuid)
        if known is None or known[0] != instance or abs(known[1] - actual) > TOLERANCE:
            known = self._sizes[domain.uuid] = (instance, actual, self._now())
        return domain.guest is not None and domain.guest.at > known[2]

    def _give_back(self, domain: DomainObservation, mark: Mark | None, *, dry_run: bool) -> Verdict:
        if mark is None:
            return Verdict(Answer.UNCHANGED)
        if domain.state is not DomainState.RUNNING:
            return Verdict(Answer.PENDING, Reason.NOT_RUNNING, f"the VM is {domain.state}")
        if dry_run:
            return Verdict(Answer.PLANNED, Reason.DRY_RUN, "give back what the balloon took")
        # All of it was the VM's own when the mark was made. What was plugged in or out since is not in the mark, and a
        # target below what the VM has takes memory away.
        size = domain.facts.memory or int(mark.before)
        try:
            self._target(domain.uuid).set(size)
        except VirtError as error:
            return Verdict(Answer.FAILED, Reason.HYPERVISOR, error.detail)
        self._ledger.remove(domain.uuid, BALLOON_KNOB)
        return Verdict(Answer.APPLIED, Reason.NONE, f"{size // MIB} MiB again")


def build(context: LeverContext) -> BalloonLever:
    """The lever of a host."""
    # A QEMU that stands still keeps who asks it waiting: not on the connection that lists the VMs.
    return BalloonLever(
        context.ledger,
        lambda uuid: BalloonTarget(context.counting, uuid),
        time.time,
        partial(instance_runs, context.root),
    )


def _take_up(domain: DomainObservation, mark: Mark) -> Mark | None:
    """It holds where the balloon is inflated, and no more was taken than the VM has.

    Where memory was plugged in since, more may be left to the VM than it had before.
    """
    actual = domain.balloon_actual
    if domain.process is None or actual is None or not all(_is_size(size) for size in (mark.before, mark.after)):
        return None
    if not (actual < domain.facts.memory - TOLERANCE and int(mark.before) <= domain.facts.memory):
        return None
    return replace(mark, instance=domain.process.instance)


def _smaller_since(domain: DomainObservation, mark: Mark) -> bool:
    """Whether the balloon leaves less than it ever would by what memhint asked for: somebody else asked for less.

    More says nothing: a balloon deflates by itself. What is plugged out goes from what the balloon leaves.
    """
    actual = domain.balloon_actual
    if domain.state is not DomainState.RUNNING or actual is None:
        return False
    held = int(mark.before) - int(mark.after)
    return actual < min(int(mark.after), domain.facts.memory - held) - TOLERANCE


def _is_size(text: str) -> bool:
    return text.isascii() and text.isdecimal()


TRAVELLING: Mapping[str, TakeUp] = {BALLOON_KNOB: _take_up}
"""Knobs whose setting goes where the VM goes."""


def _refusal(domain: DomainObservation, policy: Policy, wish: int, mark: Mark | None, actual: int) -> Verdict | None:
    facts = domain.facts
    if not policy.balloon or policy.qos is not QosClass.BEST_EFFORT:
        return Verdict(
            Answer.REFUSED, Reason.CONSENT, "only a VM with class=best-effort and balloon=allow is ballooned"
        )
    if not policy.minimum <= wish <= facts.memory:
        return Verdict(Answer.REFUSED, Reason.HEADROOM, "that is below the VM's minimum, or more than it has")
    if mark is None and actual < facts.memory - TOLERANCE:
        return Verdict(Answer.CONFLICT, Reason.OTHER_MANAGER, "somebody else has inflated this VM's balloon")
    return None
