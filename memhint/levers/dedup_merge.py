"""What QEMU marks as mergeable of each VM: set, verified in the host kernel's own flags, and put back.

Of a VM that may merge only those ranges are marked that hold equal pages, where the finder knows them and QEMU can do
it; the object as a whole stays at merge=false then. Ranges are added and never taken out one by one: that would
separate what merged in them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from memhint.kernel import smaps
from memhint.kernel.errors import KernelInterfaceError
from memhint.kernel.ksm import read_ksm
from memhint.kernel.root import PAGE_SIZE, KernelRoot
from memhint.levers.failed import failed
from memhint.levers.host_ksm import no_room
from memhint.objects.counted import counted
from memhint.objects.domain import DomainObservation, DomainState, ProcessMemory
from memhint.objects.host import HostObservation
from memhint.objects.merge_ranges import Range, RangeChoice, united, within, without
from memhint.objects.ownership import Ledger, Mark
from memhint.objects.units import MIB, mib
from memhint.objects.verdict import Answer, Reason, Verdict
from memhint.planner.splits import splits_by_merging, words
from memhint.virt.errors import VirtError
from memhint.virt.memory_blocks import Block

LOG = logging.getLogger(__name__)
MERGE_KNOB = "qemu merge"
RANGES = "ranges"  # the mark's ``after`` where parts of a VM's memory were set
# QEMU's own small blocks (firmware, option ROMs, ACPI tables, video memory) stay mergeable whatever the guest's memory
# object says; nothing but nosharepages in the domain's XML keeps them out.
RESIDUE = 64 * MIB


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
class _VerifiedFlag:
    """What was verified of a VM's memory."""

    merge: bool  # whether it is mergeable
    memory: int  # bytes that it had: what is plugged in since, QEMU marks


class MergeFlags:
    """QEMU's ``merge`` of the VMs of a host. To set it takes long: QEMU walks all of a guest's memory."""

    def __init__(
        self,
        root: KernelRoot,
        ledger: Ledger,
        monitor: Callable[[str], QemuMonitor],
        reserve: Callable[[HostObservation], int],
        available: Callable[[], int],
        now: Callable[[], float],
        ranges: Callable[[str, str], RangeChoice | None],
        pause: Callable[[], None],
    ) -> None:
        """:param monitor: gives the monitor of a domain's UUID
        :param reserve: bytes that separating pages must leave
        :param available: bytes that the host has available, read at each call; raises KernelInterfaceError
        :param ranges: what is worth merging of a VM's process, by UUID and instance; None where that is not known
        :param pause: has KSM rest until the next pass
        """
        self._root = root
        self._ledger = ledger
        self._monitor = monitor
        self._reserve = reserve
        self._available = available
        self._now = now
        self._ranges = ranges
        self._pause = pause
        self._known: dict[str, _VerifiedFlag] = {}  # by QEMU process
        self._marked: dict[str, tuple[Range, ...]] = {}  # by QEMU process: of those of which only parts are
        self._whole: set[str] = set()  # QEMU processes of which parts cannot be marked
        self._anew: set[tuple[str, int]] = set()  # instances, and their memory, that were set anew

    def known(self, instance: str) -> bool | None:
        """Whether a QEMU process was verified to be mergeable, or not to be; None where neither was."""
        found = self._known.get(instance)
        return None if found is None else found.merge

    def set(self, domain: DomainObservation, merge: bool, host: HostObservation, *, dry_run: bool) -> Verdict:
        """Have all of a VM's memory be mergeable, or none of it, and see to it that the kernel has it so."""
        if self.is_set(domain, merge):
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
        assert domain.process is not None
        self._pause()
        try:
            for path in backends:
                monitor.set(path, "merge", True)
                monitor.set(path, "merge", False)
        except VirtError:  # it was not asked
            self._anew.discard((domain.process.instance, domain.facts.memory))
            raise
        return self._verify(domain, False)

    def _out_already(self, domain: DomainObservation) -> bool:
        """Whether nothing of it is mergeable, as with ``-machine mem-merge=off``: then QEMU need not be asked.

        Where little is, that may be ranges of its guest's memory, of which an agent with an empty ledger knows nothing.
        A QEMU that is still starting shows nothing either: its guest's memory is not there yet, and will be mergeable.
        Until the VM runs QEMU is asked, which answers once it has that memory.
        """
        assert domain.process is not None
        if domain.state is not DomainState.RUNNING:
            return False
        try:
            out = smaps.mergeable_bytes(self._root, domain.process.pid) == 0
        except KernelInterfaceError:
            return False
        if out:
            self._know(domain, False)
        return out

    def _know(self, domain: DomainObservation, merge: bool) -> None:
        assert domain.process is not None
        self._known[domain.process.instance] = _VerifiedFlag(merge, domain.facts.memory)
        self._marked.pop(domain.process.instance, None)

    def _unknow(self, instance: str) -> None:
        """What was verified holds no more once its QEMU is told anything else, whatever comes of that."""
        self._known.pop(instance, None)
        self._marked.pop(instance, None)

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
        self._unknow(domain.process.instance)

    def let_in(self, domain: DomainObservation, host: HostObservation, *, dry_run: bool) -> Verdict:
        """Let a member merge: the ranges that are worth it, or all of it, or nothing where no page has an equal."""
        assert domain.process is not None
        instance = domain.process.instance
        mark = self._ledger.get(domain.uuid, MERGE_KNOB)
        parts = mark is not None and (mark.instance, mark.after) == (instance, RANGES)
        if instance in self._whole or (self.is_set(domain, True) and instance not in self._marked):
            return self.set(domain, True, host, dry_run=dry_run)
        choice = self._ranges(domain.uuid, instance)
        if choice is None and not parts:
            return self.set(domain, True, host, dry_run=dry_run)
        if choice is not None and choice.ranges is None:
            return self.set(domain, True, host, dry_run=dry_run)
        wanted = () if choice is None or choice.ranges is None else choice.ranges
        if not wanted and not parts:
            out = self.set(domain, False, host, dry_run=dry_run)
            return Verdict(Answer.UNCHANGED, Reason.DOES_NOT_PAY, "no page of it has an equal") if out.ok else out
        marked = self._marked.get(instance)
        new = wanted if marked is None else without(wanted, marked)
        if not new and marked is not None:
            return _in_parts(domain, marked, Answer.UNCHANGED)
        if not parts and not self._marks_ranges(domain):
            return self.set(domain, True, host, dry_run=dry_run)
        if dry_run:
            return Verdict(Answer.PLANNED, Reason.DRY_RUN, f"mark {counted(len(new), 'range')} of it as mergeable")
        if not parts and not self.is_set(domain, False):
            out = self.set(domain, False, host, dry_run=False)
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
        self._known[instance], self._marked[instance] = _VerifiedFlag(True, domain.facts.memory), after
        return _in_parts(domain, after, Answer.APPLIED)

    def _give_ranges_up(self, domain: DomainObservation, host: HostObservation, why: str) -> Verdict:
        """Nothing stays half marked: none of it merges now, and all of it from the next pass on."""
        assert domain.process is not None
        LOG.warning("ranges of %s could not be marked: %s", domain.name, why)
        self._whole.add(domain.process.instance)
        self._unknow(domain.process.instance)
        self.set(domain, False, host, dry_run=False)
        return Verdict(Answer.FAILED, Reason.HYPERVISOR, f"its ranges could not be marked: {why}")

    def _no_room(self, domain: DomainObservation, host: HostObservation) -> Verdict | None:
        """Separating gives every merged page memory of its own, at once, while QEMU's monitor is blocked."""
        assert domain.process is not None
        try:
            detail = no_room("its pages", self._merged(domain.process), lambda: self.room(host))
        except KernelInterfaceError as error:
            return failed(error)
        return None if detail is None else Verdict(Answer.REFUSED, Reason.HEADROOM, detail)

    def _merged(self, process: ProcessMemory) -> int:
        """Bytes that come back as memory of the VM's own; at most, where the kernel tells of no single process."""
        merging = process.ksm_merging
        if merging is None:  # before Linux 5.19
            merging = min(process.rss, read_ksm(self._root).saving(PAGE_SIZE))
        return merging + (process.ksm_zero or 0)

    def room(self, host: HostObservation) -> int:
        """Bytes that the host can give away now to pages that are separated; below 0 where it lacks them.

        :raises KernelInterfaceError: when what is available cannot be read
        """
        # Not as the host was seen at first: a pass may take minutes, and each VM that it separates takes of this.
        return self._available() - self._reserve(host)

    def is_set(self, domain: DomainObservation, merge: bool) -> bool:
        """Whether that was verified, of all the memory that the VM has."""
        return domain.process is not None and self._known.get(domain.process.instance) == _VerifiedFlag(
            merge, domain.facts.memory
        )

    def is_out(self, domain: DomainObservation) -> bool:
        """Whether the kernel shows that a VM is kept out, whatever its QEMU was told: then nothing of it is merged."""
        assert domain.process is not None
        if self.is_set(domain, False):
            return True
        try:
            return smaps.mergeable_bytes(self._root, domain.process.pid) <= _left_over(domain)
        except KernelInterfaceError:
            return False  # to set it says why

    def forget_ended(self, running: Sequence[DomainObservation], domains: Sequence[DomainObservation]) -> None:
        """Of QEMU processes that ended nothing is known any more, and their marks hold for nothing."""
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

    def restore(self, mark: Mark, domain: DomainObservation | None) -> list[str]:
        """Put back what a mark is of; what failed, in words."""
        if domain is None or domain.process is None or domain.process.instance != mark.instance:
            self._ledger.remove(mark.subject, mark.knob)
            return []
        self._unknow(mark.instance)
        try:
            monitor = self._monitor(mark.subject)
            for path in monitor.memory_backends():
                monitor.set(path, "merge", mark.before == "true")
        except VirtError as error:
            return [f"{domain.name}: {error.detail}"]
        self._ledger.remove(mark.subject, mark.knob)
        return []


def _left_over(domain: DomainObservation) -> int:
    """Bytes that may be mergeable of a VM that is kept out."""
    return min(RESIDUE, domain.facts.memory // 4)


def _in_parts(domain: DomainObservation, ranges: Sequence[Range], answer: Answer) -> Verdict:
    size = sum(end - start for start, end in ranges)
    where = f"{mib(size)} of {mib(domain.facts.memory)} MiB, in {counted(len(ranges), 'range')}"
    return Verdict(answer, Reason.NONE, f"what has an equal may merge: {where if ranges else 'the ranges as before'}")
