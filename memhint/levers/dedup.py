"""Dedup: QEMU's ``merge`` per VM and the host's KSM, after all other VMs are kept out.

QEMU marks every guest's memory as mergeable unless told otherwise, and KSM as it is knows no groups: switching it on
for one VM would merge all. So the order is fixed: those who did not opt in are set to merge=false and that is seen in
the host kernel's own flags, then the members are set to merge=true, then KSM runs. Undoing goes the other way round.
Where KSM has partitions, each VM is put into that of its group before it merges.

How a VM's memory is marked is in `dedup_merge.py`, how it gets into its partition in `dedup_partition.py`.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from memhint.kernel import ksm, process
from memhint.kernel.root import KernelRoot
from memhint.levers.arrivals import Arrivals
from memhint.levers.dedup_merge import MERGE_KNOB, MergeFlags, QemuMonitor
from memhint.levers.dedup_partition import ENDED, PARTITION_KNOB, Partitions
from memhint.levers.host_ksm import HostKsm, is_ksm
from memhint.levers.lever import HostLever, LeverContext, PassResult
from memhint.objects.domain import PROCESS, DomainObservation, DomainState
from memhint.objects.gap import GapReason
from memhint.objects.host import HostObservation
from memhint.objects.lever import LeverName, LeverState, Observed
from memhint.objects.merge_ranges import RangeChoice
from memhint.objects.ownership import HOST, Ledger
from memhint.objects.policy import Policy
from memhint.objects.verdict import Answer, Reason, Verdict
from memhint.planner.dedup import DedupPlan, resting
from memhint.planner.dedup_pace import Pace

if TYPE_CHECKING:
    from oslo_config import cfg

LOG = logging.getLogger(__name__)
OTHER_MANAGERS = frozenset({"ksmtuned", "momd", "vdsmd"})
PAUSED = Verdict(Answer.UNCHANGED, Reason.NOT_RUNNING, "it is paused: for a while it stays as it is")
ADAPTIVE = "adaptive"
FAST = (5000, 20)  # pages, and the milliseconds of the sleep after them: about 38 % of a core
SLOW = (100, 1000)  # no load worth the name; what the pages hold is still looked at now and then


@dataclass(frozen=True, slots=True)
class DedupSettings:
    """What the operator allows, and how KSM is to scan. None leaves the kernel's own value.

    With ``advisor`` ADAPTIVE memhint paces KSM itself; pages and sleep are then those of the fast pace.
    """

    allow_monitor_commands: bool = False
    advisor: str | None = "scan-time"
    target_scan_time: int | None = 200  # seconds
    max_cpu: int | None = 70  # percent of a core
    pages_to_scan: int | None = None
    sleep_millisecs: int | None = None
    use_zero_pages: bool = True
    empty_only: bool = False  # nothing but pages of zeros is merged
    empty_across: bool = False  # pages of zeros of several projects are merged at the same time

    def knobs(
        self, pace: Pace = Pace.FAST, *, several: bool = False, counted: bool = True
    ) -> list[tuple[ksm.KsmKnob, str]]:
        """The knobs in the order in which they are written; ``run`` is not among them.

        :param several: VMs of several projects merge
        :param counted: the kernel tells which memory became the zero page
        """
        advisor, pages, sleep = self.advisor, self.pages_to_scan, self.sleep_millisecs
        if advisor == ADAPTIVE:
            advisor = "none"
            fast = (pages or FAST[0], FAST[1] if sleep is None else sleep)
            pages, sleep = fast if pace is Pace.FAST else SLOW
        wanted: list[tuple[ksm.KsmKnob, int | str | None]] = [
            (ksm.KsmKnob.USE_ZERO_PAGES, int(counted and self._zero_page(several))),
            # Where a kernel can leave all but empty pages alone, members would wait for the others for ever.
            *((knob, int(self.empty_only)) for knob in ksm.EMPTY_ONLY),
            # It skips pages that found no equal so far, at most every ninth scan looks at them: those of two VMs that
            # began to merge at different times may be looked at in turns for ever, and then never meet.
            (ksm.KsmKnob.SMART_SCAN, 0),
            (ksm.KsmKnob.ADVISOR_MODE, advisor),
            (ksm.KsmKnob.ADVISOR_TARGET_SCAN_TIME, self.target_scan_time),
            (ksm.KsmKnob.ADVISOR_MAX_CPU, self.max_cpu),
            (ksm.KsmKnob.PAGES_TO_SCAN, pages),
            (ksm.KsmKnob.SLEEP_MILLISECS, sleep),
        ]
        return [(knob, str(value)) for knob, value in wanted if value is not None]

    def _zero_page(self, several: bool) -> bool:
        """Whether pages of zeros are merged with the zero page, which belongs to no partition."""
        return self.empty_only or (self.use_zero_pages and (self.empty_across or not several))


class DedupLever(HostLever[DedupPlan]):
    """Merging on one host. Its calls may take long (QEMU walks all of a guest's memory): not for the cycle's thread."""

    name = LeverName.DEDUP

    def __init__(
        self,
        root: KernelRoot,
        ledger: Ledger,
        monitor: Callable[[str], QemuMonitor],
        settings: DedupSettings,
        host_boot: str,
        reserve: Callable[[HostObservation], int],
        available: Callable[[], int],
        now: Callable[[], float],
        ranges: Callable[[str, str], RangeChoice | None] = lambda uuid, instance: None,
        arrivals: Arrivals | None = None,
    ) -> None:
        """:param monitor: gives the monitor of a domain's UUID
        :param host_boot: names this boot of the host; marks of another one are void
        :param reserve: bytes that separating pages must leave
        :param available: bytes that the host has available, read at each call; raises KernelInterfaceError
        :param ranges: what is worth merging of a VM's process, by UUID and instance; None where that is not known
        :param arrivals: of VMs and of their memory; None where nothing tells of any
        """
        self._root = root
        self._ledger = ledger
        self._settings = settings
        self._ksm = HostKsm(root, ledger, host_boot, now, arrivals or Arrivals())
        self._merge = MergeFlags(root, ledger, monitor, reserve, available, now, ranges, self._ksm.pause)
        self._partitions = Partitions(root, ledger, now)

    # -- support -----------------------------------------------------------------------------------------------------

    def probe(self, host: HostObservation) -> Verdict:
        """Whether memhint may run KSM on this host now."""
        if host.ksm is None:
            return Verdict(Answer.UNSUPPORTED, Reason.KERNEL, "this kernel has no KSM")
        if self._settings.empty_only and host.ksm.empty_only is None:
            detail = "this kernel's KSM cannot merge empty pages only, as [dedup] zero_pages_only has it"
            return Verdict(Answer.UNSUPPORTED, Reason.KERNEL, detail)
        if self._settings.empty_only and not ksm.counts_zero_pages(self._root):
            detail = (
                "this kernel does not count pages of zeros that KSM merged: [dedup] zero_pages_only takes Linux 6.6"
            )
            return Verdict(Answer.UNSUPPORTED, Reason.KERNEL, detail)
        if not self._settings.allow_monitor_commands:
            return Verdict(
                Answer.REFUSED,
                Reason.MONITOR_COMMANDS,
                "merging is set through QEMU's monitor, which taints the domain: set [virt] allow_monitor_commands",
            )
        rivals = process.find_by_comm(self._root, OTHER_MANAGERS)
        if rivals:
            names = ", ".join(f"{name} (pid {pid})" for name, pid in sorted(rivals.items()))
            return Verdict(Answer.CONFLICT, Reason.OTHER_MANAGER, f"{names} manages KSM here: stop one of the two")
        if host.ksm.run == 1 and not self._ksm.owned():
            return Verdict(
                Answer.CONFLICT,
                Reason.OTHER_MANAGER,
                "KSM was switched on by somebody else; write 0 to ksm/run to hand it over",
            )
        return Verdict(Answer.UNCHANGED)

    def read(self, domain: DomainObservation, host: HostObservation) -> Observed:
        """Whether this VM's pages are being merged now."""
        if host.ksm is None or domain.facts.shared_memory or domain.facts.hugepages:
            return Observed.UNSUPPORTED
        if domain.process is None:
            return Observed.UNKNOWN
        if host.ksm.run != 1 and not domain.process.ksm_merging:
            return Observed.OFF
        known = self._merge.known(domain.process.instance)
        if known is None:
            return Observed.ON if domain.process.ksm_merging else Observed.UNKNOWN
        return Observed.ON if known else Observed.OFF

    # -- the whole host ----------------------------------------------------------------------------------------------

    def reconcile(
        self, plan: DedupPlan, domains: Sequence[DomainObservation], host: HostObservation, *, dry_run: bool
    ) -> PassResult:
        """Bring every VM and KSM to the plan. Where that breaks off KSM rests: nobody knows who is kept out."""
        try:
            return self._reconcile(plan, domains, host, dry_run=dry_run)
        except Exception:
            if not dry_run:
                self._pause_or_say()
            raise

    def _reconcile(
        self, plan: DedupPlan, domains: Sequence[DomainObservation], host: HostObservation, *, dry_run: bool
    ) -> PassResult:
        verdicts = dict(plan.verdicts)
        running = [one for one in domains if one.state is not DomainState.SHUTOFF and one.process is not None]
        self._merge.forget_ended(running, domains)
        self._partitions.forget_ended(running, domains)
        if not plan.members:
            return PassResult(verdicts, self._stop(domains, host, dry_run=dry_run))
        support = self.probe(host)
        if not support.ok:
            if support.answer is not Answer.CONFLICT:
                # What memhint may not do any more it does not leave behind.
                self._stop(domains, host, dry_run=dry_run)
            return PassResult({**verdicts, **dict.fromkeys(plan.members, support)}, support)
        others = (one for one in running if one.uuid not in plan.members and one.uuid not in plan.spared)
        if not dry_run and any(not self._merge.is_set(one, False) for one in others):
            # To keep somebody out may take minutes, as where a VM is busy, and others that start meanwhile wait for it.
            self._ksm.pause()
        placed = self._place(plan, running, host, dry_run=dry_run)
        verdicts.update({uuid: verdict for uuid, verdict in placed.items() if uuid in plan.members})
        may = {uuid for uuid in plan.members if uuid not in placed or placed[uuid].ok}
        running = [one for one in running if placed.get(one.uuid) != ENDED]
        inside = [one for one in running if one.uuid in may]
        outside = [one for one in running if one.uuid not in may]
        for domain in outside:
            verdict = self._merge.set(domain, False, host, dry_run=dry_run)
            verdicts[domain.uuid] = verdict if not verdict.ok else verdicts.get(domain.uuid, verdict)
        outside += [one for one in domains if _unseen(one)]
        unverified = [
            one.name for one in outside if not self._harmless(one, plan) and not self._merge.is_set(one, False)
        ]
        if unverified and not dry_run:
            self._ksm.pause()
            # Only the host's own verdict names VMs: those of members are read by their projects.
            held = dict.fromkeys(plan.members, _rests("a VM that must not"))
            return PassResult({**verdicts, **held}, _rests(", ".join(unverified)))
        for domain in inside:
            runs = domain.state is DomainState.RUNNING
            verdict = self._merge.let_in(domain, host, dry_run=dry_run) if runs else PAUSED
            verdicts[domain.uuid] = _both(placed[domain.uuid], verdict) if domain.uuid in placed else verdict
        counted = ksm.counts_zero_pages(self._root)
        knobs = self._settings.knobs(plan.pace, several=plan.several, counted=counted)
        return PassResult(verdicts, self._ksm.run(knobs, dry_run=dry_run))

    def _place(
        self, plan: DedupPlan, running: Sequence[DomainObservation], host: HostObservation, *, dry_run: bool
    ) -> dict[str, Verdict]:
        """Put each VM into its group's partition before any merges, also those that do not: of all, some memory may.

        Empty where KSM has no partitions.
        """
        numbers = self._partitions.numbers(plan.groups, running) if plan.groups else {}

        def placed(one: DomainObservation) -> Verdict:
            def separate() -> Verdict:
                return self._merge.set(one, False, host, dry_run=False)

            return self._partitions.put(one, numbers[one.uuid], separate, dry_run=dry_run)

        return {one.uuid: placed(one) for one in running if one.uuid in numbers}

    def _harmless(self, one: DomainObservation, plan: DedupPlan) -> bool:
        """Whether it does no harm if a VM that is kept out merges: with its own project's, and it asked for that."""
        return one.uuid in plan.spared and (not plan.groups or self._partitions.stands(one))

    def arrived(self) -> None:
        """QEMU marks what is new as mergeable, whoever's it is: KSM stops at once, and a pass that knows it goes on.

        A pass under way may take minutes, as the monitor of a busy VM does, and nobody waits for that here.
        """
        self._pause_beside()

    def knows(self, arrivals: int) -> None:
        """See HostLever."""
        self._ksm.knows(arrivals)

    def stopping(self) -> None:
        """KSM stops at once, for nobody keeps out who starts from now on. No pass under way switches it on again."""
        self._ksm.end()
        self._pause_beside()

    def inherit(self, before: HostLever[DedupPlan]) -> None:
        """KSM that an operator has stopped rests after a reload, too."""
        if isinstance(before, DedupLever):
            self._ksm.inherit(before._ksm)

    def _pause_beside(self) -> None:
        try:
            threading.Thread(target=self._pause_or_say, name="dedup-arrival", daemon=True).start()
        except RuntimeError as error:  # no host has threads without end
            LOG.warning("KSM is stopped while its caller waits: %s", error)
            self._pause_or_say()

    def _pause_or_say(self) -> None:
        try:
            self._ksm.pause()
        except Exception:
            LOG.exception("that KSM rests could not be noted, or not be found out")

    def hold(self) -> Verdict:
        """While it is not known who may merge: KSM rests, where memhint runs it. Nothing is separated, or forgotten."""
        self._ksm.pause()
        return Verdict(Answer.UNCHANGED)

    def held(self, missing: str) -> Verdict:
        """Why KSM rests."""
        return resting(missing)

    def states(
        self,
        domains: Sequence[DomainObservation],
        host: HostObservation,
        plan: DedupPlan,
        policies: Mapping[str, Policy],
        outcome: PassResult,
    ) -> Iterable[LeverState]:
        """The lever's three fields for every VM and for the host."""
        waiting = Verdict(Answer.PENDING)
        for one in domains:
            verdict = outcome.verdicts.get(one.uuid, plan.verdicts.get(one.uuid, waiting))
            yield LeverState(self.name, one.uuid, policies[one.uuid].dedup, self.read(one, host), verdict)
        seen = Observed.UNSUPPORTED if host.ksm is None else Observed.ON if host.ksm.run == 1 else Observed.OFF
        yield LeverState(self.name, HOST, "on" if plan.members else "off", seen, outcome.host)

    def outcomes(self, plan: DedupPlan | None, outcome: PassResult) -> Iterable[LeverState]:
        """What a pass brought about, and verified."""
        members = plan.members if plan is not None else frozenset()
        done = [(uuid, uuid in members, verdict) for uuid, verdict in outcome.verdicts.items()]
        for subject, on, verdict in [*done, (HOST, bool(members), outcome.host)]:
            observed = Observed.ON if on else Observed.OFF
            yield LeverState(self.name, subject, "on" if on else "off", observed, verdict)

    def undo(self, domains: Sequence[DomainObservation], host: HostObservation) -> Verdict:
        """Stop KSM, separate what memhint merged and put every setting back that memhint changed."""
        return self._stop(domains, host, dry_run=False)

    # -- going back ----------------------------------------------------------------------------------------------------

    def _stop(self, domains: Sequence[DomainObservation], host: HostObservation, *, dry_run: bool) -> Verdict:
        own = (MERGE_KNOB, PARTITION_KNOB)
        marks = [mark for mark in self._ledger.all() if mark.knob in own or is_ksm(mark)]
        if not marks:
            return Verdict(Answer.UNCHANGED)
        if dry_run:
            return Verdict(
                Answer.PLANNED, Reason.DRY_RUN, "stop KSM, separate what was merged and restore its settings"
            )
        # First of all: to separate takes minutes, may fail, and may be broken off, and KSM would go on over those that
        # start meanwhile.
        self._ksm.pause()
        by_uuid = {one.uuid: one for one in domains if one.process is not None}
        problems = []
        merged = set()  # VMs that stay so for now: their marks are kept, and the next pass tries again
        for mark in marks:
            one = by_uuid.get(mark.subject)
            if mark.knob != MERGE_KNOB or one is None:
                continue
            # Who was to be out may not be: that was marked first. Whose property goes back to that is separated by it.
            if mark.after != "false" or mark.before == "false" or not self._merge.is_out(one):
                verdict = self._merge.set(one, False, host, dry_run=False)
                if not verdict.ok:
                    problems.append(f"{one.name}: {verdict}")
                    merged.add(mark.subject)

        def room() -> int:
            return self._merge.room(host)

        problems += self._partitions.restore(lambda: self._ksm.separate_all(room, host.page_size))
        problems += self._ksm.restore(room, host.page_size)
        unseen = {one.uuid: one.name for one in domains if _unseen(one)}
        for mark in marks:
            if mark.knob == MERGE_KNOB and mark.subject in unseen:
                problems.append(f"{unseen[mark.subject]}: its process was not read")
            elif mark.knob == MERGE_KNOB and mark.subject not in merged:
                problems += self._merge.restore(mark, by_uuid.get(mark.subject))
        if problems:
            return Verdict(Answer.FAILED, Reason.HYPERVISOR, "; ".join(problems))
        return Verdict(Answer.APPLIED, Reason.NONE, "KSM and every VM are as they were")


def _unseen(one: DomainObservation) -> bool:
    """Whether a VM has a process of which nothing could be read; one that has ended, or is not there yet, merges
    nothing.
    """
    return (
        one.process is None
        and one.state is not DomainState.SHUTOFF
        and not any(gap.what == PROCESS and gap.reason is GapReason.GONE for gap in one.gaps)
    )


def _both(placed: Verdict, merged: Verdict) -> Verdict:
    """What became of a member that was put into its partition, and let in."""
    if not merged.ok or placed.answer is Answer.UNCHANGED:
        return merged
    return Verdict(placed.answer, placed.reason, "; ".join(one.detail for one in (placed, merged) if one.detail))


def settings_of(conf: cfg.ConfigOpts) -> DedupSettings:
    """What ``[dedup]`` says of KSM; "leave it" becomes None."""
    options = conf.dedup
    advised = options.advisor == "scan-time"
    return DedupSettings(
        allow_monitor_commands=conf.virt.allow_monitor_commands,
        advisor=options.advisor,
        target_scan_time=options.target_scan_time if advised else None,
        max_cpu=options.max_cpu if advised else None,
        pages_to_scan=options.pages_to_scan or None,
        sleep_millisecs=options.sleep_millisecs if options.sleep_millisecs >= 0 else None,
        use_zero_pages=options.use_zero_pages,
        empty_only=options.zero_pages_only,
        empty_across=options.zero_pages_across_projects,
    )


def build(context: LeverContext) -> DedupLever:
    """The lever of a host."""

    from memhint.virt.monitor import Monitor  # it loads libvirt, which the lever itself does without

    def reserve(host: HostObservation) -> int:
        return context.settings.reserve_of(host.pool)

    return DedupLever(
        context.root,
        context.ledger,
        lambda uuid: Monitor(context.slow, uuid),
        settings_of(context.conf),
        context.boot,
        reserve,
        context.available,
        time.time,
        context.ranges,
        context.arrivals,
    )


def _rests(who: str) -> Verdict:
    return Verdict(Answer.REFUSED, Reason.NOT_VERIFIED, f"KSM does not run while {who} may be merged")
