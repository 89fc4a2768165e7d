"""Dedup: QEMU's ``merge`` per VM and the host's KSM, after all other VMs are kept out.

QEMU marks every guest's memory as mergeable unless told otherwise, and KSM knows no groups: switching it on for one VM
would merge all. So the order is fixed: those who did not opt in are set to merge=false and that is seen in the host
kernel's own flags, then the members are set to merge=true, then KSM runs. Undoing goes the other way round.

Of a member only those ranges are marked that hold equal pages, where the finder knows them and QEMU can do it; the
object as a whole stays at merge=false then. Ranges are added and never taken out one by one: that would separate what
merged in them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from memhint.kernel import ksm, process, smaps
from memhint.kernel.errors import KernelInterfaceError
from memhint.kernel.root import KernelRoot
from memhint.levers.host_ksm import HostKsm, is_ksm
from memhint.levers.lever import Outcome
from memhint.objects.counted import counted
from memhint.objects.domain import DomainObservation, DomainState
from memhint.objects.host import HostObservation
from memhint.objects.lever import LeverName, LeverState, Observed
from memhint.objects.ownership import HOST, Ledger, Mark
from memhint.objects.policy import Policy
from memhint.objects.units import MIB, mib
from memhint.objects.verdict import Answer, Reason, Verdict
from memhint.planner.dedup import DedupPlan, resting
from memhint.planner.dedup_pace import Pace
from memhint.planner.dedup_ranges import Range, RangeChoice, united, within, without
from memhint.planner.splits import splits_by_merging, words
from memhint.virt.errors import VirtError
from memhint.virt.memory_blocks import Block

LOG = logging.getLogger(__name__)
MERGE_KNOB = "qemu merge"
RANGES = "ranges"  # the mark's ``after`` where parts of a VM's memory were set
OTHER_MANAGERS = frozenset({"ksmtuned", "momd", "vdsmd"})
# QEMU's own small blocks (firmware, option ROMs, ACPI tables, video memory) stay mergeable whatever the guest's memory
# object says; nothing but nosharepages in the domain's XML keeps them out.
RESIDUE = 64 * MIB
ADAPTIVE = "adaptive"
FAST = (5000, 20)  # pages, and the milliseconds of the sleep after them: about 38 % of a core
SLOW = (100, 1000)  # no load worth the name; what the pages hold is still looked at now and then


class QemuMonitor(Protocol):
    """QEMU's object properties."""

    def memory_backends(self) -> list[str]:
        """The objects that hold the guest's memory."""

    def get(self, path: str, name: str) -> object:
        """A property."""

    def set(self, path: str, name: str, value: object) -> None:
        """Set a property."""

    def marks_ranges(self) -> bool:
        """Whether this QEMU can mark parts of an object."""

    def memory_blocks(self) -> Mapping[str, Block]:
        """Where those objects' memory is in QEMU's process."""

    def merge_ranges(self, path: str, merge: bool, ranges: Sequence[Range]) -> None:
        """Mark parts of such an object, given by their offsets."""


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

    def knobs(self, pace: Pace = Pace.FAST) -> list[tuple[ksm.KsmKnob, str]]:
        """The knobs in the order in which they are written; ``run`` is not among them."""
        advisor, pages, sleep = self.advisor, self.pages_to_scan, self.sleep_millisecs
        if advisor == ADAPTIVE:
            advisor = "none"
            fast = (pages or FAST[0], FAST[1] if sleep is None else sleep)
            pages, sleep = fast if pace is Pace.FAST else SLOW
        wanted: list[tuple[ksm.KsmKnob, int | str | None]] = [
            (ksm.KsmKnob.USE_ZERO_PAGES, int(self.use_zero_pages)),
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


@dataclass(frozen=True, slots=True)
class _Known:
    """What was verified of a VM's memory."""

    merge: bool  # whether it is mergeable
    memory: int  # bytes that it had: what is plugged in since, QEMU marks


class DedupLever:
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
        now: Callable[[], float],
        ranges: Callable[[str, str], RangeChoice | None] = lambda uuid, instance: None,
    ) -> None:
        """:param monitor: gives the monitor of a domain's UUID
        :param host_boot: names this boot of the host; marks of another one are void
        :param reserve: bytes that separating pages must leave
        :param ranges: what is worth merging of a VM's process, by UUID and instance; None where that is not known
        """
        self._root = root
        self._ledger = ledger
        self._monitor = monitor
        self._settings = settings
        self._ksm = HostKsm(root, ledger, host_boot, now)
        self._reserve = reserve
        self._now = now
        self._ranges = ranges
        self._known: dict[str, _Known] = {}  # by QEMU process
        self._marked: dict[str, tuple[Range, ...]] = {}  # by QEMU process: of those of which only parts are
        self._whole: set[str] = set()  # QEMU processes of which parts cannot be marked
        self._anew: set[tuple[str, int]] = set()  # instances, and their memory, that were set anew

    # -- support -----------------------------------------------------------------------------------------------------

    def probe(self, host: HostObservation) -> Verdict:
        """Whether memhint may run KSM on this host now."""
        if host.ksm is None:
            return Verdict(Answer.UNSUPPORTED, Reason.KERNEL, "this kernel has no KSM")
        if not self._settings.allow_monitor_commands:
            return Verdict(
                Answer.REFUSED,
                Reason.MONITOR_COMMANDS,
                "merging is set through QEMU's monitor, which taints the domain: set [dedup] allow_monitor_commands",
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
        known = self._known.get(domain.process.instance)
        if known is None:
            return Observed.ON if domain.process.ksm_merging else Observed.UNKNOWN
        return Observed.ON if known.merge else Observed.OFF

    # -- the whole host ----------------------------------------------------------------------------------------------

    def reconcile(
        self, plan: DedupPlan, domains: Sequence[DomainObservation], host: HostObservation, *, dry_run: bool
    ) -> Outcome:
        """Bring every VM and KSM to the plan."""
        verdicts = dict(plan.verdicts)
        running = [one for one in domains if one.state is not DomainState.SHUTOFF and one.process is not None]
        self._forget_ended(running, domains)
        if not plan.members:
            return Outcome(verdicts, self._stop(running, host, dry_run=dry_run))
        support = self.probe(host)
        if not support.ok:
            if support.answer is not Answer.CONFLICT:
                # What memhint may not do any more it does not leave behind.
                self._stop(running, host, dry_run=dry_run)
            return Outcome({**verdicts, **dict.fromkeys(plan.members, support)}, support)
        outside = [one for one in running if one.uuid not in plan.members]
        inside = [one for one in running if one.uuid in plan.members]
        for domain in outside:
            verdict = self._set_merge(domain, False, host, dry_run=dry_run)
            verdicts[domain.uuid] = verdict if not verdict.ok else verdicts.get(domain.uuid, verdict)
        unverified = [
            one.name
            for one in outside
            if one.uuid not in plan.spared and not verdicts[one.uuid].ok and not self._is(one, False)
        ]
        if unverified and not dry_run:
            self._ksm.pause()
            held = Verdict(
                Answer.REFUSED, Reason.NOT_VERIFIED, f"KSM does not run while {', '.join(unverified)} may be merged"
            )
            return Outcome({**verdicts, **dict.fromkeys(plan.members, held)}, held)
        for domain in inside:
            verdicts[domain.uuid] = self._let_in(domain, host, dry_run=dry_run)
        return Outcome(verdicts, self._ksm.run(host, self._settings.knobs(plan.pace), dry_run=dry_run))

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
        outcome: Outcome,
    ) -> Iterable[LeverState]:
        """The lever's three fields for every VM and for the host."""
        waiting = Verdict(Answer.PENDING)
        for one in domains:
            verdict = outcome.verdicts.get(one.uuid, plan.verdicts.get(one.uuid, waiting))
            yield LeverState(self.name, one.uuid, policies[one.uuid].dedup, self.read(one, host), verdict)
        seen = Observed.UNSUPPORTED if host.ksm is None else Observed.ON if host.ksm.run == 1 else Observed.OFF
        yield LeverState(self.name, HOST, "on" if plan.members else "off", seen, outcome.host)

    def outcomes(self, plan: DedupPlan | None, outcome: Outcome) -> Iterable[LeverState]:
        """What a pass brought about, and verified."""
        members = plan.members if plan is not None else frozenset()
        done = [(uuid, uuid in members, verdict) for uuid, verdict in outcome.verdicts.items()]
        for subject, on, verdict in [*done, (HOST, bool(members), outcome.host)]:
            observed = Observed.ON if on else Observed.OFF
            yield LeverState(self.name, subject, "on" if on else "off", observed, verdict)

    def undo(self, domains: Sequence[DomainObservation], host: HostObservation) -> Verdict:
        """Separate what memhint merged, stop KSM and put every setting back that memhint changed."""
        return self._stop([one for one in domains if one.process is not None], host, dry_run=False)

    # -- one VM ------------------------------------------------------------------------------------------------------

    def _set_merge(self, domain: DomainObservation, merge: bool, host: HostObservation, *, dry_run: bool) -> Verdict:
        if self._is(domain, merge):
            return Verdict(Answer.UNCHANGED)
        if merge and (domain.facts.shared_memory or domain.facts.hugepages):
            # Not so of keeping it out: a part may be on ordinary pages, whatever the definition says of the whole.
            return Verdict(Answer.UNCHANGED, Reason.DEVICE, "KSM cannot touch this VM's memory")
        if not merge:
            if self._out_already(domain):
                return Verdict(Answer.UNCHANGED)
            refusal = self._no_room(domain, host)
            if refusal is not None:
                return refusal
        if dry_run:
            what = f"set merge={str(merge).lower()} on its memory objects"
            # What the estimate says of it is in the plan.
            what += f"; {words(splits_by_merging(domain, None))}" if merge else ""
            return Verdict(Answer.PLANNED, Reason.DRY_RUN, what)
        assert domain.process is not None  # only VMs with a process come here
        try:
            monitor = self._monitor(domain.uuid)
            backends = monitor.memory_backends()
            if not backends:
                return Verdict(
                    Answer.UNSUPPORTED, Reason.DEVICE, "this VM's memory is no QEMU object; its merge is fixed"
                )
            before = all(monitor.get(path, "merge") is True for path in backends)
            after = str(merge).lower()
            self._mark(domain, before, after)
            for path in backends:
                monitor.set(path, "merge", merge)
            verdict = self._verify(domain, merge)
            if verdict.ok or merge or before or not self._first_time(domain):
                return verdict
            return self._set_anew(domain, monitor, backends)
        except VirtError as error:
            return Verdict(Answer.FAILED, Reason.HYPERVISOR, error.detail)
        except KernelInterfaceError as error:
            return Verdict(Answer.FAILED, Reason.NOT_VERIFIED, str(error))

    def _first_time(self, domain: DomainObservation) -> bool:
        """Whether this QEMU was not set anew yet, with the memory that it has: what that did not mend it never will."""
        assert domain.process is not None
        known = (domain.process.instance, domain.facts.memory)
        if known in self._anew:
            return False
        self._anew.add(known)
        return True

    def _set_anew(self, domain: DomainObservation, monitor: QemuMonitor, backends: Sequence[str]) -> Verdict:
        """Have QEMU unmark what its property says is not marked.

        An object with merge=off in the VM's definition is marked as mergeable all the same when QEMU starts (seen in
        7.2 and 10.0), and to set what the property says already does nothing. For a moment all of it is mergeable, so
        nothing merges meanwhile; the next pass has KSM go on.
        """
        self._ksm.pause()
        for path in backends:
            monitor.set(path, "merge", True)
            monitor.set(path, "merge", False)
        return self._verify(domain, False)

    def _out_already(self, domain: DomainObservation) -> bool:
        """Whether nothing of it is mergeable, as with ``-machine mem-merge=off``: then QEMU need not be asked.

        Where little is, that may be ranges of its guest's memory, of which an agent with an empty ledger knows nothing.
        """
        assert domain.process is not None
        try:
            out = smaps.mergeable_bytes(self._root, domain.process.pid) == 0
        except KernelInterfaceError:
            return False
        if out:
            self._know(domain, False)
        return out

    def _know(self, domain: DomainObservation, merge: bool) -> None:
        assert domain.process is not None
        self._known[domain.process.instance] = _Known(merge, domain.facts.memory)
        self._marked.pop(domain.process.instance, None)

    def _verify(self, domain: DomainObservation, merge: bool) -> Verdict:
        """Ask the host's kernel: QEMU answers success whatever its madvise did."""
        assert domain.process is not None
        mergeable = smaps.mergeable_bytes(self._root, domain.process.pid)
        took = mergeable >= domain.facts.memory if merge else mergeable <= _left_over(domain)
        if not took:
            detail = f"{mib(mergeable)} MiB of its memory are mergeable after setting merge={str(merge).lower()}"
            return Verdict(Answer.FAILED, Reason.NOT_VERIFIED, detail)
        self._know(domain, merge)
        return Verdict(Answer.APPLIED)

    def _mark(self, domain: DomainObservation, before: bool, after: str) -> None:
        assert domain.process is not None
        self._ledger.put(
            Mark(domain.uuid, MERGE_KNOB, str(before).lower(), after, domain.process.instance, self._now())
        )

    # -- parts of one VM ---------------------------------------------------------------------------------------------

    def _let_in(self, domain: DomainObservation, host: HostObservation, *, dry_run: bool) -> Verdict:
        """Let a member merge: the ranges that are worth it, or all of it, or nothing where no page has an equal."""
        assert domain.process is not None
        instance = domain.process.instance
        mark = self._ledger.get(domain.uuid, MERGE_KNOB)
        parts = mark is not None and (mark.instance, mark.after) == (instance, RANGES)
        if instance in self._whole or (self._is(domain, True) and instance not in self._marked):
            return self._set_merge(domain, True, host, dry_run=dry_run)
        choice = self._ranges(domain.uuid, instance)
        if choice is None and not parts:
            return self._set_merge(domain, True, host, dry_run=dry_run)
        if choice is not None and choice.ranges is None:
            return self._set_merge(domain, True, host, dry_run=dry_run)
        wanted = () if choice is None or choice.ranges is None else choice.ranges
        if not wanted and not parts:
            out = self._set_merge(domain, False, host, dry_run=dry_run)
            return Verdict(Answer.UNCHANGED, Reason.DOES_NOT_PAY, "no page of it has an equal") if out.ok else out
        marked = self._marked.get(instance)
        new = wanted if marked is None else without(wanted, marked)
        if not new and marked is not None:
            return _in_parts(domain, marked, Answer.UNCHANGED)
        if not parts and not self._marks_ranges(domain):
            return self._set_merge(domain, True, host, dry_run=dry_run)
        if dry_run:
            return Verdict(Answer.PLANNED, Reason.DRY_RUN, f"mark {len(new)} ranges of it as mergeable")
        if not parts and not self._is(domain, False):
            out = self._set_merge(domain, False, host, dry_run=False)
            if not out.ok:
                return out
        return self._mark_ranges(domain, marked or (), new, host)

    def _marks_ranges(self, domain: DomainObservation) -> bool:
        """Ask its QEMU, once. One that does not answer is asked again in the next pass."""
        assert domain.process is not None
        try:
            able = self._monitor(domain.uuid).marks_ranges()
        except VirtError as error:
            LOG.warning("whether %s can merge by range: %s", domain.name, error.detail)
            return False
        if not able:
            self._whole.add(domain.process.instance)
        return able

    def _mark_ranges(
        self, domain: DomainObservation, marked: tuple[Range, ...], new: Sequence[Range], host: HostObservation
    ) -> Verdict:
        assert domain.process is not None
        instance = domain.process.instance
        try:
            monitor = self._monitor(domain.uuid)
            blocks = monitor.memory_blocks()
            before = all(monitor.get(path, "merge") is True for path in blocks)
            self._mark(domain, before, RANGES)
            for path, block in blocks.items():
                inside = within(new, block.address, block.address + block.size)
                if inside:
                    offsets = [(start - block.address, end - block.address) for start, end in inside]
                    monitor.merge_ranges(path, True, offsets)
            after = united(marked, new)
            least = sum(
                end - start
                for block in blocks.values()
                for start, end in within(after, block.address, block.address + block.size)
            )
            mergeable = smaps.mergeable_bytes(self._root, domain.process.pid)
        except (VirtError, KernelInterfaceError) as error:
            return self._give_ranges_up(domain, host, str(error))
        # An agent that was started again does not know what the one before it has marked.
        if mergeable < max(1, least) or mergeable >= domain.facts.memory + RESIDUE:
            return self._give_ranges_up(
                domain, host, f"{mib(mergeable)} MiB are mergeable after {mib(least)} MiB of ranges were marked"
            )
        self._known[instance], self._marked[instance] = _Known(True, domain.facts.memory), after
        return _in_parts(domain, after, Answer.APPLIED)

    def _give_ranges_up(self, domain: DomainObservation, host: HostObservation, why: str) -> Verdict:
        """Nothing stays half marked: none of it merges now, and all of it from the next pass on."""
        assert domain.process is not None
        LOG.warning("ranges of %s could not be marked: %s", domain.name, why)
        self._whole.add(domain.process.instance)
        self._known.pop(domain.process.instance, None)
        self._marked.pop(domain.process.instance, None)
        self._set_merge(domain, False, host, dry_run=False)
        return Verdict(Answer.FAILED, Reason.HYPERVISOR, f"its ranges could not be marked: {why}")

    def _no_room(self, domain: DomainObservation, host: HostObservation) -> Verdict | None:
        """Separating gives every merged page memory of its own, at once, while QEMU's monitor is blocked."""
        assert domain.process is not None
        need = (domain.process.ksm_merging or 0) + (domain.process.ksm_zero or 0)
        room = host.memory.available - self._reserve(host)
        if need <= max(0, room):
            return None
        detail = f"separating its pages needs {mib(need)} MiB, and {mib(max(0, room))} MiB are to be had"
        return Verdict(Answer.REFUSED, Reason.HEADROOM, detail)

    def _is(self, domain: DomainObservation, merge: bool) -> bool:
        return domain.process is not None and self._known.get(domain.process.instance) == _Known(
            merge, domain.facts.memory
        )

    def _forget_ended(self, running: Sequence[DomainObservation], domains: Sequence[DomainObservation]) -> None:
        # One missed reading of a process is no end of it.
        missed = {one.uuid for one in domains if one.state is not DomainState.SHUTOFF and one.process is None}
        alive = {one.process.instance for one in running if one.process is not None}
        self._known = {instance: merge for instance, merge in self._known.items() if instance in alive}
        self._marked = {instance: ranges for instance, ranges in self._marked.items() if instance in alive}
        self._whole &= alive
        self._anew = {known for known in self._anew if known[0] in alive}
        for mark in self._ledger.all():
            if mark.knob == MERGE_KNOB and mark.instance not in alive and mark.subject not in missed:
                self._ledger.remove(mark.subject, mark.knob)

    # -- going back ----------------------------------------------------------------------------------------------------

    def _stop(self, running: Sequence[DomainObservation], host: HostObservation, *, dry_run: bool) -> Verdict:
        marks = [mark for mark in self._ledger.all() if mark.knob == MERGE_KNOB or is_ksm(mark)]
        if not marks:
            return Verdict(Answer.UNCHANGED)
        if dry_run:
            return Verdict(
                Answer.PLANNED, Reason.DRY_RUN, "separate what was merged, stop KSM and restore its settings"
            )
        by_uuid = {one.uuid: one for one in running}
        problems = []
        for mark in marks:
            if mark.knob == MERGE_KNOB and mark.after != "false" and mark.subject in by_uuid:
                verdict = self._set_merge(by_uuid[mark.subject], False, host, dry_run=False)
                if not verdict.ok:
                    problems.append(f"{by_uuid[mark.subject].name}: {verdict}")
        problems += self._ksm.restore()
        for mark in marks:
            if mark.knob == MERGE_KNOB:
                problems += self._restore_merge(mark, by_uuid.get(mark.subject))
        if problems:
            return Verdict(Answer.FAILED, Reason.HYPERVISOR, "; ".join(problems))
        return Verdict(Answer.APPLIED, Reason.NONE, "KSM and every VM are as they were")

    def _restore_merge(self, mark: Mark, domain: DomainObservation | None) -> list[str]:
        if domain is None or domain.process is None or domain.process.instance != mark.instance:
            self._ledger.remove(mark.subject, mark.knob)
            return []
        try:
            monitor = self._monitor(mark.subject)
            for path in monitor.memory_backends():
                monitor.set(path, "merge", mark.before == "true")
        except VirtError as error:
            return [f"{domain.name}: {error.detail}"]
        self._known.pop(mark.instance, None)
        self._marked.pop(mark.instance, None)
        self._ledger.remove(mark.subject, mark.knob)
        return []


def _left_over(domain: DomainObservation) -> int:
    """Bytes that may be mergeable of a VM that is kept out."""
    return min(RESIDUE, domain.facts.memory // 4)


def _in_parts(domain: DomainObservation, ranges: Sequence[Range], answer: Answer) -> Verdict:
    size = sum(end - start for start, end in ranges)
    where = f"{mib(size)} of {mib(domain.facts.memory)} MiB, in {counted(len(ranges), 'range')}"
    return Verdict(answer, Reason.NONE, f"what has an equal may merge: {where if ranges else 'the ranges as before'}")
