"""Free page reporting: what the guest's kernel lets one switch at run time, else the definition for the next boot.

There is no switch on the host: QEMU fixes the feature when the device is made. In the guest, a kernel with memhint's
patches has a switch that an extended agent reaches. Stock kernels before 6.2 take any ``page_reporting_order``, and an
order beyond the largest block stops reporting; later ones refuse such an order, and the only way is to take the driver
off the device. All of them need the owner's consent, and the owner can undo them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from memhint.guest.errors import (
    GuestAgentAbsent,
    GuestCommandFailed,
    GuestCommandMissing,
    GuestError,
    GuestTimeout,
    GuestWriteRefused,
)
from memhint.guest.page_reporting import ReportingParameter, set_page_reporting
from memhint.guest.protocol import GuestAgent
from memhint.guest.reporting_knob import (
    MAX_PAGE_ORDER,
    STOP_ORDER,
    bind,
    may_be_written,
    reports,
    unbind,
    write_order,
)
from memhint.levers import guest_boot, reporting_next_boot, reporting_tuning
from memhint.levers.lever import TakeUp, as_it_is
from memhint.levers.reporting_flush import Flushes
from memhint.levers.reporting_next_boot import NEXT_BOOT_KNOB, NextBootConfig
from memhint.objects.domain import DomainObservation, DomainState
from memhint.objects.guest import GuestKernel
from memhint.objects.lever import LeverName, LeverState, Observed
from memhint.objects.ownership import Ledger, Mark
from memhint.objects.pieces import HUGE_ORDER
from memhint.objects.policy import Mode, Policy
from memhint.objects.tuning import GUESTS_OWN, Tuning
from memhint.objects.verdict import Answer, Reason, Verdict
from memhint.planner.splits import splits_by_free
from memhint.planner.splits import words as splits_words
from memhint.virt.errors import VirtError

ORDER_KNOB = "guest page_reporting_order"
DRIVER_KNOB = "guest balloon driver"
ENABLED_KNOB = "guest page_reporting enabled"
KNOBS = frozenset({ORDER_KNOB, DRIVER_KNOB, ENABLED_KNOB, NEXT_BOOT_KNOB, *reporting_tuning.KNOBS})
"""Every mark of this lever."""
TRAVELLING: Mapping[str, TakeUp] = dict.fromkeys(KNOBS, as_it_is)
"""Knobs whose setting goes where the VM goes: all. A VM that is migrated may take its definition along, too.

Where it did not there is nothing to put back, and `reporting_next_boot` sees that.
"""
_SWITCHES = (ENABLED_KNOB, ORDER_KNOB, DRIVER_KNOB, NEXT_BOOT_KNOB)  # the others are what is tuned
BOUNDED_SINCE = (6, 2)  # from here on the kernel refuses an order beyond MAX_PAGE_ORDER
_RELEASE = re.compile(r"(\d+)\.(\d+)")


@dataclass(frozen=True, slots=True)
class ReportingTarget:
    """One VM as the lever sees it: what was observed, what holds, and the ways to reach it."""

    domain: DomainObservation
    policy: Policy
    agent: GuestAgent | None
    next_boot: NextBootConfig
    tuning: Tuning = GUESTS_OWN
    fresh: bool = False
    """Whether the guest's kernel and memory, as observed, were read in this very conversation."""
    kept: Collection[str] = ()
    """Knobs that stay as they are, with their marks, where they would be put back."""


class ReportingLever:
    """Free page reporting per VM."""

    name = LeverName.REPORTING

    def __init__(
        self, ledger: Ledger, read_kernel: Callable[[GuestAgent], GuestKernel], order: int, now: Callable[[], float]
    ) -> None:
        """:param order: the block order that reporting is switched on with, where memhint does not know the former one
        :param read_kernel: reads the guest's switch again, so that what was written is read back
        """
        self._ledger = ledger
        self._read_kernel = read_kernel
        self._order = order
        self._now = now
        self._flushes = Flushes()
        self._bounded: dict[str, str | None] = {}  # by domain: the release that refused STOP_ORDER
        self._looked: set[str] = set()  # VMs with the feature whose definition has it, too, as far as anybody has told

    def retain(self, uuids: Collection[str]) -> None:
        """Forget what is remembered of all VMs but these."""
        self._flushes.retain(uuids)
        for gone in self._bounded.keys() - set(uuids):
            del self._bounded[gone]
        for gone in self._looked - set(uuids):
            self._looked.discard(gone)

    def redefined(self, uuid: str) -> None:
        """A definition may be another one; of any VM where ``uuid`` is empty. Safe on the event thread."""
        if uuid:
            self._looked.discard(uuid)
        else:
            self._looked.clear()

    def probe(self, domain: DomainObservation) -> Verdict:
        """Whether this VM's reporting can be switched at run time at all, consent aside."""
        if domain.state is not DomainState.RUNNING:
            return Verdict(Answer.UNSUPPORTED, Reason.NOT_RUNNING, f"the VM is {domain.state}")
        if not domain.facts.balloon:
            return Verdict(Answer.UNSUPPORTED, Reason.DEVICE, "the VM has no virtio balloon")
        if not domain.facts.reporting_offered:
            return Verdict(
                Answer.UNSUPPORTED,
                Reason.DEVICE,
                "it was started without freePageReporting; reporting=on sets it for the next boot",
            )
        if domain.guest_kernel is None:
            return Verdict(Answer.UNSUPPORTED, Reason.NO_GUEST_AGENT, "the guest's switch cannot be read")
        if domain.guest_kernel.reporting_offered is False:
            return Verdict(Answer.UNSUPPORTED, Reason.KERNEL, "the guest's driver did not take the feature up")
        if _has_switch(domain.guest_kernel):
            return Verdict(Answer.UNCHANGED)
        if domain.guest_kernel.balloon_device is None or domain.guest_kernel.order is None:
            return Verdict(Answer.UNSUPPORTED, Reason.KERNEL, "the guest kernel has no page reporting")
        return Verdict(Answer.UNCHANGED)

    def read(self, domain: DomainObservation) -> Observed:
        """What the guest's switch says. A guest that cannot be asked is unknown; unsupported is not off."""
        support = self.probe(domain)
        if support.reason in (Reason.DEVICE, Reason.KERNEL):
            return Observed.UNSUPPORTED
        kernel = domain.guest_kernel
        if not support.ok or kernel is None:
            return Observed.UNKNOWN
        return {None: Observed.UNKNOWN, True: Observed.ON, False: Observed.OFF}[reports(kernel)]

    def state(self, domain: DomainObservation, desired: str, verdict: Verdict) -> LeverState:
        """The lever's three fields for one VM."""
        return LeverState(self.name, domain.uuid, desired, self.read(domain), verdict)

    def pull(self, target: ReportingTarget, desired: Mode, *, dry_run: bool) -> Verdict:
        """Bring the guest to what is desired, or say why not. ``auto`` wishes nothing and undoes what memhint did.

        Order and delay follow where reporting is on. What could not be done about either is said first.
        """
        verdict = self._pull_switch(target, desired, dry_run=dry_run)
        if verdict.ok and (tuned := self._tune(target, desired, dry_run=dry_run)) is not None:
            verdict = _of_both(verdict, tuned)
        # Whatever may be done now: the VM is to start with what is wished, and not with what an earlier wish has
        # defined, or an agent before this one has put back when it stopped.
        if desired is Mode.ON:
            return _of_both(verdict, self._keep_defined(target, dry_run=dry_run))
        self._looked.discard(target.domain.uuid)
        if desired is Mode.OFF:
            return _of_both(verdict, self._release(target, (NEXT_BOOT_KNOB,), dry_run=dry_run))
        return verdict

    def _keep_defined(self, target: ReportingTarget, *, dry_run: bool) -> Verdict:
        """Of a VM that runs with the feature, have the definition say so, too. Asks libvirt where that may be news."""
        uuid, facts = target.domain.uuid, target.domain.facts
        runs = target.domain.state is not DomainState.SHUTOFF
        if not (runs and facts.reporting_offered and facts.persistent) or uuid in self._looked:
            return Verdict(Answer.UNCHANGED)
        self._looked.add(uuid)  # before the look: what changes meanwhile is looked at again
        has_it = False
        try:
            verdict = reporting_next_boot.keep(
                self._ledger, self._now, target.domain, target.next_boot, dry_run=dry_run
            )
            has_it = verdict.ok and not dry_run
        finally:
            if not has_it:
                self._looked.discard(uuid)
        return verdict

    def _pull_switch(self, target: ReportingTarget, desired: Mode, *, dry_run: bool) -> Verdict:
        if desired is Mode.AUTO:
            return self._release(target, _SWITCHES, dry_run=dry_run)
        support = self.probe(target.domain)
        if not support.ok:
            if desired is Mode.ON and target.domain.facts.balloon and not target.domain.facts.reporting_offered:
                return reporting_next_boot.define(
                    self._ledger, self._now, target.domain, target.next_boot, dry_run=dry_run
                )
            if desired is Mode.OFF and support.reason is Reason.DEVICE:
                return Verdict(Answer.UNCHANGED, Reason.DEVICE, "the VM was started without it")
            return support
        if self.read(target.domain) == Observed(desired):
            if not dry_run:
                self._forget_settled(target.domain)
            return Verdict(Answer.UNCHANGED)
        refusal = self._refusal(target, desired)
        if refusal is not None:
            return refusal
        if dry_run:
            return Verdict(Answer.PLANNED, Reason.DRY_RUN, self._describe(target, desired))
        return self._switch(target, desired)

    def _tune(self, target: ReportingTarget, desired: Mode, *, dry_run: bool) -> Verdict | None:
        """Order and delay; None where there is nothing to say about them."""
        domain, kernel = target.domain, target.domain.guest_kernel
        wish = target.tuning if desired is not Mode.OFF else GUESTS_OWN
        support = self.probe(domain)
        if domain.state is DomainState.SHUTOFF and wish.empty:
            return self._release(target, reporting_tuning.KNOBS, dry_run=dry_run)
        if support.reason is Reason.NO_GUEST_AGENT and wish.empty and self._tuned(domain.uuid):
            return self._give_back_unseen(target, desired, dry_run=dry_run)
        if not support.ok or kernel is None:
            return None
        if not reporting_tuning.tunable(kernel):
            if wish.empty:
                return None
            detail = "this guest's kernel and agent cannot change order and delay while reporting is on"
            return Verdict(Answer.UNSUPPORTED, Reason.KERNEL, detail)
        try:
            if target.agent is not None and not target.fresh and self._tuned(domain.uuid):
                # What was seen a cycle ago may be from before memhint's own change.
                kernel = self._read_kernel(target.agent)
        except GuestError as error:
            return _failed(error)
        words = reporting_tuning.planned(self._ledger, domain.uuid, kernel, wish)
        if words and not wish.empty and not target.policy.guest_actions:
            detail = "order and delay are set inside the guest, and guest_actions is deny for this VM"
            return Verdict(Answer.REFUSED, Reason.CONSENT, detail)
        if words and dry_run:
            what = f"set {words} in the guest"
            if wish.order is not None and wish.order < HUGE_ORDER:
                what += f"; {splits_words(splits_by_free(domain, wish.order))}"
            return Verdict(Answer.PLANNED, Reason.DRY_RUN, what)
        if target.agent is None:
            return Verdict(Answer.PENDING, Reason.NO_GUEST_AGENT, "the guest cannot be asked now") if words else None
        if dry_run or not target.policy.guest_actions:
            wish = replace(wish, flush=False)
        try:
            return reporting_tuning.tune(
                self._ledger, self._now, domain.uuid, kernel, target.agent, wish, domain.guest, self._flushes
            )
        except GuestError as error:
            return _failed(error)

    def _tuned(self, uuid: str) -> bool:
        return any(self._ledger.get(uuid, knob) for knob in reporting_tuning.KNOBS)

    def _give_back_unseen(self, target: ReportingTarget, desired: Mode, *, dry_run: bool) -> Verdict | None:
        """Order and delay of a guest of which no kernel was seen: an agent that has just been started saw none yet."""
        if target.agent is None or target.fresh:
            return Verdict(Answer.PENDING, Reason.NO_GUEST_AGENT, "the guest's order and delay cannot be read now")
        try:
            domain = replace(target.domain, guest_kernel=self._read_kernel(target.agent))
        except GuestError as error:
            return _failed(error)
        return self._tune(replace(target, domain=domain, fresh=True), desired, dry_run=dry_run)

    def undo(self, mark: Mark, target: ReportingTarget | None) -> Verdict:
        """Put back what one mark says memhint changed."""
        if target is None:
            self._ledger.remove(mark.subject, mark.knob)
            return Verdict(Answer.UNCHANGED, Reason.NOT_RUNNING, "the VM is gone, and the setting with it")
        if mark.knob == NEXT_BOOT_KNOB:
            return reporting_next_boot.put_back(self._ledger, mark, target.next_boot)
        if target.domain.state is DomainState.SHUTOFF:
            return self._undo_shut_off(mark, target.next_boot)
        kernel = target.domain.guest_kernel
        if guest_boot.booted_since(kernel, mark):
            return self._gone_with_its_boot(mark)
        if target.agent is None:
            return Verdict(Answer.PENDING, Reason.NO_GUEST_AGENT, "the guest cannot be asked now")
        if mark.knob in reporting_tuning.KNOBS:
            return self._tune(replace(target, tuning=GUESTS_OWN), Mode.AUTO, dry_run=False) or Verdict(Answer.UNCHANGED)
        try:
            # What was seen a cycle ago may be of the boot before this one, of which the mark is.
            if kernel is None or not target.fresh:
                kernel = self._read_kernel(target.agent)
            if guest_boot.booted_since(kernel, mark):
                return self._gone_with_its_boot(mark)
            if _setting(kernel, mark.knob) not in (None, mark.after):
                self._ledger.remove(mark.subject, mark.knob)
                return Verdict(Answer.UNCHANGED, Reason.NONE, "somebody has set it since, and it is left so")
            former = mark.before
            if mark.knob == ENABLED_KNOB:
                set_page_reporting(target.agent, enabled=former == "true")
            elif mark.knob == ORDER_KNOB:
                # of a kernel that shows -1 nobody has chosen one
                former = former if may_be_written(int(former)) else str(self._order)
                write_order(target.agent, int(former))
            elif mark.before:
                bind(target.agent, mark.before)
            else:
                unbind(target.agent, mark.after)
            # A guest that takes the write and does nothing has memhint's value still.
            verdict = self._read_back(target.agent, lambda seen: _setting(seen, mark.knob) == former)
        except GuestError as error:
            return _failed(error)
        if not verdict.ok:
            return verdict
        self._ledger.remove(mark.subject, mark.knob)
        return Verdict(Answer.APPLIED, Reason.NONE, f"{mark.knob} is as it was")

    def _undo_shut_off(self, mark: Mark, config: NextBootConfig) -> Verdict:
        try:
            anew = config.begins_anew()
        except VirtError as error:
            return Verdict(Answer.FAILED, Reason.HYPERVISOR, error.detail)
        if not anew:
            return Verdict(Answer.PENDING, Reason.NOT_RUNNING, "the VM is saved, and goes on with what was set in it")
        return self._gone_with_its_boot(mark, "the VM is shut off, and the setting went with its boot")

    def _gone_with_its_boot(
        self, mark: Mark, detail: str = "the guest has booted since, and the setting went with it"
    ) -> Verdict:
        self._ledger.remove(mark.subject, mark.knob)
        return Verdict(Answer.UNCHANGED, Reason.NONE, detail)

    def _release(self, target: ReportingTarget, knobs: Iterable[str], *, dry_run: bool) -> Verdict:
        """Undo every mark of these; the verdict that matters most, or that nothing was to be done."""
        verdicts = []
        for knob in knobs:
            mark = self._ledger.get(target.domain.uuid, knob) if knob not in target.kept else None
            if mark is not None and dry_run:
                verdicts.append(Verdict(Answer.PLANNED, Reason.DRY_RUN, f"{knob} would be as it was"))
            elif mark is not None:
                verdicts.append(self.undo(mark, target))
        failed = [verdict for verdict in verdicts if not verdict.ok]
        return next(iter([*failed, *verdicts]), Verdict(Answer.UNCHANGED))

    def _refusal(self, target: ReportingTarget, desired: Mode) -> Verdict | None:
        if not target.policy.guest_actions:
            return Verdict(
                Answer.REFUSED, Reason.CONSENT, "it is switched inside the guest, and guest_actions is deny for this VM"
            )
        if target.agent is None:
            return Verdict(Answer.UNSUPPORTED, Reason.NO_GUEST_AGENT, "the guest cannot be asked now")
        kernel = target.domain.guest_kernel
        if desired is Mode.OFF and not _has_switch(kernel) and not self._takes_any_order(target.domain.uuid, kernel):
            if not target.policy.guest_unbind:
                return Verdict(
                    Answer.UNSUPPORTED,
                    Reason.UNBIND_OPT_IN,
                    "this guest kernel can only unbind the balloon's driver; guest_unbind=allow permits that",
                )
            actual = target.domain.balloon_actual
            if actual is None or actual < target.domain.facts.memory:
                return Verdict(
                    Answer.REFUSED, Reason.BALLOON_INFLATED, "taking its driver off would deflate the balloon at once"
                )
        return None

    def _describe(self, target: ReportingTarget, desired: Mode) -> str:
        if _has_switch(target.domain.guest_kernel):
            return f"set the guest kernel's switch to {desired}"
        if desired is Mode.OFF:
            return (
                f"write {STOP_ORDER} to page_reporting_order in the guest"
                if self._takes_any_order(target.domain.uuid, target.domain.guest_kernel)
                else "unbind the guest's balloon driver"
            )
        bound = target.domain.guest_kernel is not None and target.domain.guest_kernel.balloon_bound
        return "write page_reporting_order in the guest" if bound else "bind the guest's balloon driver"

    def _switch(self, target: ReportingTarget, desired: Mode) -> Verdict:
        kernel, agent = target.domain.guest_kernel, target.agent
        assert kernel is not None  # probe and refusal saw to both
        assert agent is not None
        try:
            if _has_switch(kernel):
                return self._set_enabled(target.domain.uuid, kernel, agent, desired is Mode.ON)
            if desired is Mode.OFF:
                return self._switch_off(target.domain.uuid, kernel, agent)
            return self._switch_on(target.domain.uuid, kernel, agent)
        except GuestError as error:
            return _failed(error)

    def _set_enabled(self, uuid: str, kernel: GuestKernel, agent: GuestAgent, enabled: bool) -> Verdict:
        before, after = str(kernel.enabled).lower(), str(enabled).lower()

        def write() -> None:
            set_page_reporting(agent, enabled=enabled)

        return self._change(uuid, ENABLED_KNOB, before, after, kernel, agent, write, refused=GuestCommandFailed)

    def _switch_off(self, uuid: str, kernel: GuestKernel, agent: GuestAgent) -> Verdict:
        if self._takes_any_order(uuid, kernel):
            return self._set_order(uuid, kernel, agent, STOP_ORDER)
        device = kernel.balloon_device or ""
        return self._change(uuid, DRIVER_KNOB, device, "", kernel, agent, lambda: unbind(agent, device))

    def _switch_on(self, uuid: str, kernel: GuestKernel, agent: GuestAgent) -> Verdict:
        if kernel.balloon_bound is False:
            device = kernel.balloon_device or ""
            return self._change(uuid, DRIVER_KNOB, "", device, kernel, agent, lambda: bind(agent, device))
        mark = self._ledger.get(uuid, ORDER_KNOB)
        former = int(mark.before) if mark is not None else STOP_ORDER
        order = former if 0 <= former <= MAX_PAGE_ORDER else self._order
        verdict = self._set_order(uuid, kernel, agent, order)
        if verdict.answer is Answer.APPLIED:
            detail = f"nothing is reported before the guest next frees a block of order {order}"
            return Verdict(Answer.APPLIED, Reason.REARM, detail)
        return verdict

    def _set_order(self, uuid: str, kernel: GuestKernel, agent: GuestAgent, order: int) -> Verdict:
        before, after = str(kernel.order), str(order)
        try:
            return self._change(uuid, ORDER_KNOB, before, after, kernel, agent, lambda: write_order(agent, order))
        except GuestWriteRefused:
            if order == STOP_ORDER:
                self._bounded[uuid] = kernel.release
            raise

    def _change(
        self,
        uuid: str,
        knob: str,
        before: str,
        after: str,
        kernel: GuestKernel,
        agent: GuestAgent,
        write: Callable[[], None],
        refused: type[GuestError] = GuestWriteRefused,
    ) -> Verdict:
        """Mark, write and read back.

        On the way back the mark stays as it is until that is read: if the write fails, or the agent dies, what stands
        there may be memhint's still, and what it was before must be known.

        :param refused: raised where all is as it was
        """
        known = self._ledger.get(uuid, knob)
        ours = known is not None and guest_boot.may_be_of_this_boot(kernel, known)
        back = ours and known is not None and known.before != before == known.after
        if not back:
            guest_boot.drop_if_set_since(self._ledger, kernel, known, before)
            self._mark(uuid, knob, before, after, kernel)
        try:
            write()
        except refused:
            if not back:
                self._restore(uuid, knob, known)
            raise
        verdict = self._read_back(agent, lambda seen: _setting(seen, knob) == after)
        mark = self._ledger.get(uuid, knob)
        if verdict.answer is Answer.APPLIED and mark is not None:
            if mark.before == after:
                self._ledger.remove(uuid, knob)  # as it was before memhint came
            elif back:
                self._mark(uuid, knob, before, after, kernel)  # as good as that, and memhint's
        return verdict

    def _mark(self, uuid: str, knob: str, before: str, after: str, kernel: GuestKernel) -> None:
        """Keep what was there first, before it is changed; the ledger keeps the oldest of one guest boot."""
        former = guest_boot.before(self._ledger, uuid, knob, before)
        self._ledger.put(Mark(uuid, knob, former, after, kernel.boot_id or "", self._now()))

    def _restore(self, uuid: str, knob: str, known: Mark | None) -> None:
        """The mark of before a write that changed nothing."""
        if known is None:
            self._ledger.remove(uuid, knob)
        else:
            self._ledger.put(known)

    def _forget_settled(self, domain: DomainObservation) -> None:
        """What took effect although the guest's answer to it came too late is as it was, and needs no mark any more."""
        kernel = domain.guest_kernel
        if kernel is None:
            return
        for knob in (ENABLED_KNOB, ORDER_KNOB, DRIVER_KNOB):
            mark = self._ledger.get(domain.uuid, knob)
            if (
                mark is not None
                and guest_boot.may_be_of_this_boot(kernel, mark)
                and mark.before == _setting(kernel, knob)
            ):
                self._ledger.remove(domain.uuid, knob)

    def _takes_any_order(self, uuid: str, kernel: GuestKernel | None) -> bool:
        """Going by its version, unless it has refused: distributions bring changes of later kernels back."""
        match = _RELEASE.match(kernel.release or "") if kernel is not None else None
        if kernel is None or match is None or self._bounded.get(uuid) == kernel.release:
            return False
        return (int(match.group(1)), int(match.group(2))) < BOUNDED_SINCE

    def _read_back(self, agent: GuestAgent, took: Callable[[GuestKernel], bool]) -> Verdict:
        if took(self._read_kernel(agent)):
            return Verdict(Answer.APPLIED)
        return Verdict(Answer.FAILED, Reason.GUEST_ANSWER, "the guest took the write and shows the old setting")


def _of_both(verdict: Verdict, other: Verdict) -> Verdict:
    """What was done and what could not be is said before what stayed as it was."""
    if other.answer is Answer.UNCHANGED or not verdict.ok:
        return verdict
    if verdict.answer is Answer.UNCHANGED or not other.ok:
        return other
    return Verdict(verdict.answer, verdict.reason, "; ".join(filter(None, (verdict.detail, other.detail))))


def _setting(kernel: GuestKernel, knob: str) -> str | None:
    """What stands there now, as a mark has it; None where that was not read."""
    if knob == ENABLED_KNOB:
        return None if kernel.enabled is None else str(kernel.enabled).lower()
    if knob == ORDER_KNOB:
        return None if kernel.order is None else str(kernel.order)
    if kernel.balloon_bound is None:
        return None
    return (kernel.balloon_device or "") if kernel.balloon_bound else ""


def _has_switch(kernel: GuestKernel | None) -> bool:
    return kernel is not None and kernel.enabled is not None and ReportingParameter.ENABLED in kernel.settable


def _failed(error: GuestError) -> Verdict:
    if isinstance(error, GuestTimeout):
        return Verdict(Answer.FAILED, Reason.GUEST_TIMEOUT, error.detail)
    if isinstance(error, GuestAgentAbsent):
        return Verdict(Answer.PENDING, Reason.NO_GUEST_AGENT, error.detail)
    if isinstance(error, GuestCommandMissing):
        return Verdict(Answer.UNSUPPORTED, error.verdict, error.detail)
    return Verdict(Answer.FAILED, Reason.GUEST_ANSWER, error.detail)
