"""The page recycler: threads of a VM's QEMU give back single free pages, with no exit and no interrupt for the guest.

The guest marks what it frees, so nothing is asked of it; what it uses again costs a page fault in the host. Whole
blocks are left to free page reporting, unless the guest has switched it off: then nothing else would give them back.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import astuple
from functools import partial
from typing import Protocol

from memhint.guest.reporting_knob import reports
from memhint.kernel.process import instance_runs
from memhint.levers.lever import LeverContext, Stop, VmLever
from memhint.levers.reached import ENDED, REPLACED, Reached
from memhint.objects.discarded import BALLOON_REPORTING
from memhint.objects.domain import DomainObservation, DomainState
from memhint.objects.gap import GapReason
from memhint.objects.lever import LeverName, LeverState, Observed
from memhint.objects.ownership import Ledger, Mark, marking
from memhint.objects.policy import Mode, Policy
from memhint.objects.recycler import RecyclerCounters, RecyclerPace, pace_of
from memhint.objects.units import MIB
from memhint.objects.verdict import Answer, Reason, Verdict
from memhint.planner.splits import splits_by_free, words
from memhint.virt.errors import VirtError
from memhint.virt.monitor import Monitor
from memhint.virt.recycler import RecyclerKnobs

PACE_KNOB = "page recycler"
STAYING = frozenset({PACE_KNOB})
"""Knobs of which nothing is left on a host that the VM has left."""
_STILL = RecyclerPace(workers=0, period_ms=10_000, max_bytes=0)


class Knobs(Protocol):
    """The pace of a domain's recycler."""

    def read(self) -> RecyclerPace:
        """As it is now."""

    def write(self, pace: RecyclerPace) -> None:
        """Set it."""


class RecyclerLever(VmLever):
    """The recycler per VM. A wish is the bytes per second that it may give back."""

    name = LeverName.RECYCLER
    always_shown = True
    share = 0.05

    def __init__(
        self,
        ledger: Ledger,
        knobs: Callable[[str], Knobs],
        now: Callable[[], float],
        runs: Callable[[str], bool],
        *,
        workers: int = 1,
        period_ms: int = 10_000,
        allow_monitor_commands: bool = False,
    ) -> None:
        """:param knobs: those of a domain, by UUID
        :param runs: whether a QEMU process runs, by its instance
        :param workers: threads of each QEMU while it recycles
        :param period_ms: milliseconds from one look through the guest's marks to the next
        """
        self._ledger = ledger
        self._knobs = knobs
        self._now = now
        self._workers = workers
        self._period_ms = period_ms
        self._allowed = allow_monitor_commands
        self._set: Reached[RecyclerPace] = Reached(runs)

    def probe(self, domain: DomainObservation) -> Verdict:
        """Whether this VM's free pages can be recycled at all, its policy aside."""
        if domain.state is not DomainState.RUNNING or domain.process is None:
            return Verdict(Answer.UNSUPPORTED, Reason.NOT_RUNNING, f"the VM is {domain.state}")
        if not self._allowed:
            detail = (
                "its pace is set through QEMU's monitor, which taints the domain: set [virt] allow_monitor_commands"
            )
            return Verdict(Answer.UNSUPPORTED, Reason.MONITOR_COMMANDS, detail)
        if domain.balloon_reporting is None:
            detail = "QEMU has not said whether its balloon can recycle pages; one that reports free pages is asked"
            return Verdict(Answer.UNSUPPORTED, Reason.DEVICE, detail)
        seen = domain.balloon_reporting.recycler
        if seen is None:
            detail = "its balloon has no page recycler: start it with page-recycler=on, on a QEMU that has it"
            return Verdict(Answer.UNSUPPORTED, Reason.DEVICE, detail)
        if not seen.negotiated:
            return Verdict(Answer.UNSUPPORTED, Reason.KERNEL, "the guest's kernel does not mark its free pages")
        return Verdict(Answer.UNCHANGED)

    def read(self, domain: DomainObservation) -> Observed:
        """Whether threads of this QEMU give pages back."""
        seen = _seen(domain)
        if seen is None or not seen.negotiated:
            return Observed.UNKNOWN if self._allowed and domain.balloon_reporting is None else Observed.UNSUPPORTED
        return Observed.ON if seen.workers and seen.inhibited is None else Observed.OFF

    def state(self, domain: DomainObservation, policy: Policy, wish: int | None, verdict: Verdict | None) -> LeverState:
        """The lever's three fields for one VM."""
        if verdict is None:
            verdict = self.probe(domain)
            if verdict.ok and policy.recycler is Mode.OFF:
                verdict = Verdict(Answer.UNCHANGED, Reason.OPT_OUT)
        return LeverState(self.name, domain.uuid, str(policy.recycler), self.read(domain), verdict)

    def owned(self) -> dict[str, Mark]:
        """What memhint set, by domain UUID.

        :raises StoreError: when the store cannot be read
        """
        marks = {mark.subject: mark for mark in self._ledger.all() if mark.knob == PACE_KNOB}
        self._set.retain(marks)
        return marks

    def pull(
        self, domain: DomainObservation, policy: Policy, wish: int | None, *, dry_run: bool, stop: Stop = lambda: False
    ) -> Verdict:
        """Give back up to ``wish`` bytes per second, or say why not; None puts back the pace that was there first."""
        mark = self._ledger.get(domain.uuid, PACE_KNOB)
        process = domain.process
        if mark is not None and process is not None and mark.instance != process.instance:
            if self._set.runs(mark.instance):
                return REPLACED
            unsure = self._set.of(domain.uuid, mark.instance) is None
            if unsure and self._allowed and domain.facts.reporting_offered:
                # What that one was told may have come to this one.
                if domain.balloon_reporting is None and not _tells_nothing(domain):
                    return Verdict(Answer.PENDING, Reason.NONE, "the VM's new QEMU has not told its pace yet")
                if _seen(domain) is not None:
                    return self._put_back(domain, mark, dry_run=dry_run)
            self._ledger.remove(domain.uuid, PACE_KNOB)  # another process, at its own pace
            mark = None
        if wish is None:
            return self._put_back(domain, mark, dry_run=dry_run)
        support = self.probe(domain)
        if not support.ok:
            return support
        assert process is not None  # probe saw to it
        seen = _seen(domain)
        assert seen is not None
        whole = domain.guest_kernel is not None and reports(domain.guest_kernel) is False
        if mark is not None and self._set.of(domain.uuid, process.instance) == self._pace(wish, mark, whole):
            return _going_on(seen)
        detail = f"{wish // MIB} MiB a second at most{', whole blocks too: the guest does not report them' * whole}"
        if dry_run:
            what = f"recycle free pages, {detail}; {words(splits_by_free(domain))}"
            return Verdict(Answer.PLANNED, Reason.DRY_RUN, what)
        if not self._set.runs(process.instance):
            return ENDED
        try:
            knobs = self._knobs(domain.uuid)
            before = knobs.read()
            if mark is None and before.workers:
                return Verdict(Answer.CONFLICT, Reason.OTHER_MANAGER, "somebody else has this QEMU recycle pages")
            if mark is not None and _set_since(mark, before):
                return Verdict(Answer.CONFLICT, Reason.OTHER_MANAGER, "somebody has set another pace since")
            pace = self._pace(wish, mark or Mark(domain.uuid, PACE_KNOB, str(before), "", "", 0.0), whole)
            new = Mark(domain.uuid, PACE_KNOB, str(before), str(pace), process.instance, self._now())
            self._set.forget(domain.uuid)
            with marking(self._ledger.put, new, mark, mark.values()[0] if mark is not None else new.before):
                knobs.write(pace)
        except VirtError as error:
            return Verdict(Answer.FAILED, Reason.HYPERVISOR, error.detail)
        self._set.note(domain.uuid, process.instance, pace)
        return Verdict(Answer.APPLIED, Reason.NONE, detail)

    def _pace(self, wish: int, mark: Mark, whole: bool) -> RecyclerPace:
        """What QEMU is to be set to. `whole`: blocks that are left to reporting otherwise are given back, too."""
        return RecyclerPace(self._workers, self._period_ms, wish, 0 if whole else _before(mark).leave_order)

    def _put_back(self, domain: DomainObservation, mark: Mark | None, *, dry_run: bool) -> Verdict:
        if mark is None:
            return Verdict(Answer.UNCHANGED)
        if domain.process is None:
            return Verdict(Answer.PENDING, Reason.NOT_RUNNING, f"the VM is {domain.state}")
        if dry_run:
            return Verdict(Answer.PLANNED, Reason.DRY_RUN, "put back the pace of its page recycler")
        before = _before(mark)
        try:
            knobs = self._knobs(domain.uuid)
            theirs = _set_since(mark, knobs.read())
            if not theirs:
                knobs.write(before)
        except VirtError as error:
            return Verdict(Answer.FAILED, Reason.HYPERVISOR, error.detail)
        self._ledger.remove(domain.uuid, PACE_KNOB)
        if theirs:
            detail = "somebody has set another pace since, and it is left so"
            return Verdict(Answer.CONFLICT, Reason.OTHER_MANAGER, detail)
        return Verdict(Answer.APPLIED, Reason.NONE, "its page recycler rests" if not before.workers else "as it was")


def build(context: LeverContext) -> RecyclerLever:
    """The lever of a host."""
    options = context.conf.recycler
    return RecyclerLever(
        context.ledger,
        lambda uuid: RecyclerKnobs(Monitor(context.counting, uuid)),
        time.time,
        partial(instance_runs, context.root),
        workers=options.workers,
        period_ms=int(options.period * 1000),
        allow_monitor_commands=context.conf.virt.allow_monitor_commands,
    )


def _before(mark: Mark) -> RecyclerPace:
    try:
        return pace_of(mark.before)
    except ValueError:
        return _STILL  # a mark of another version: at rest is how QEMU begins


def _set_since(mark: Mark, seen: RecyclerPace) -> bool:
    """Whether somebody else has set the pace since. It is four properties, so a write that failed leaves some of each.

    A second pace that is not known to be written may have failed after a first that had: then nothing tells.
    """
    try:
        known = [astuple(pace_of(text)) for text in (mark.before, *mark.values())]
    except ValueError:
        return False  # of another version
    return len(known) == 2 and any(
        value not in values for value, values in zip(astuple(seen), zip(*known, strict=True), strict=True)
    )


def _seen(domain: DomainObservation) -> RecyclerCounters | None:
    return domain.balloon_reporting.recycler if domain.balloon_reporting is not None else None


def _tells_nothing(domain: DomainObservation) -> bool:
    """Whether its QEMU has no such counters, and so no recycler."""
    return any(one.what == BALLOON_REPORTING and one.reason is GapReason.UNSUPPORTED for one in domain.gaps)


def _going_on(seen: RecyclerCounters) -> Verdict:
    if seen.inhibited is not None:
        return Verdict(Answer.PENDING, Reason.HYPERVISOR, f"QEMU gives nothing back for now: {seen.inhibited}")
    return Verdict(Answer.UNCHANGED, Reason.NONE, f"{seen.recycled // MIB} MiB were given back so far")
