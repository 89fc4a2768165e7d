"""In which of KSM's partitions each VM's QEMU is: put there before it merges, verified, and taken out again.

The number of a process can be changed only while none of its pages are merged. QEMU's own small blocks stay mergeable
whatever the guest's memory does: where one of them merged before, the process stays where it is until it ends, or until
KSM separates everything.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence

from memhint.kernel.errors import InterfaceMissing, KernelInterfaceError, ProcessGone
from memhint.kernel.ksm_partition import DEFAULT, PartitionBusy, read_partition, set_partition
from memhint.kernel.process import instance_runs, pid_of
from memhint.kernel.root import KernelRoot
from memhint.objects.domain import DomainObservation, DomainState
from memhint.objects.ownership import Ledger, Mark
from memhint.objects.verdict import Answer, Reason, Verdict
from memhint.planner.dedup_partitions import numbers

LOG = logging.getLogger(__name__)
PARTITION_KNOB = "ksm partition"
ENDED = Verdict(Answer.PENDING, Reason.NOT_RUNNING, "its QEMU has ended")


class Partitions:
    """The partitions of the VMs of a host, on a kernel that has them."""

    def __init__(self, root: KernelRoot, ledger: Ledger, now: Callable[[], float]) -> None:
        """:param now: unix seconds"""
        self._root = root
        self._ledger = ledger
        self._now = now
        self._stands: dict[str, int] = {}  # by QEMU process: the partition that it was verified to be in

    def numbers(self, groups: Mapping[str, str], running: Sequence[DomainObservation]) -> dict[str, int]:
        """The partition that each VM is to be in, by UUID.

        :param groups: with whom each may merge
        """
        held = {mark.subject: int(mark.after) for mark in self._marks()}
        seen = {one.uuid: one.process.ksm_partition for one in running if one.process is not None}
        return numbers(groups, held, {uuid: found for uuid, found in seen.items() if found and uuid not in held})

    def put(self, domain: DomainObservation, number: int, separate: Callable[[], Verdict], *, dry_run: bool) -> Verdict:
        """Put a VM into its partition.

        :param separate: takes the guest's memory out of merging, where that stands in the way
        """
        assert domain.process is not None  # only VMs with a process come here
        instance, pid = domain.process.instance, domain.process.pid
        self._stands.pop(instance, None)
        try:
            if not instance_runs(self._root, instance):
                return ENDED
            seen = read_partition(self._root, pid)
            if seen == number:
                self._stands[instance] = number
                return Verdict(Answer.UNCHANGED)
            conflict = self._conflict(domain, seen)
            if conflict is not None:
                return conflict
            if dry_run:
                return Verdict(Answer.PLANNED, Reason.DRY_RUN, f"put it into partition {number} of KSM")
            refusal = self._write(domain, seen, number, separate)
            if refusal is not None:
                return refusal
        except ProcessGone:
            return ENDED
        except KernelInterfaceError as error:
            return Verdict(Answer.FAILED, Reason.PARTITION, str(error))
        self._stands[instance] = number
        return Verdict(Answer.APPLIED, Reason.NONE, f"in partition {number} of KSM, it was in {seen}")

    def stands(self, domain: DomainObservation) -> bool:
        """Whether the last pass saw a VM in its own partition."""
        return domain.process is not None and domain.process.instance in self._stands

    def forget_ended(self, running: Sequence[DomainObservation], domains: Sequence[DomainObservation]) -> None:
        """Of QEMU processes that ended nothing is known any more, and their marks hold for nothing."""
        # One missed reading of a process is no end of it.
        missed = {one.uuid for one in domains if one.state is not DomainState.SHUTOFF and one.process is None}
        alive = {one.process.instance for one in running if one.process is not None}
        self._stands = {instance: number for instance, number in self._stands.items() if instance in alive}
        for mark in self._marks():
            if mark.instance not in alive and mark.subject not in missed:
                self._ledger.remove(mark.subject, mark.knob)

    def restore(self, unmerge: Callable[[], str | None]) -> list[str]:
        """Put every process back into the partition that it was in; what failed, in words.

        :param unmerge: separates everything that KSM has merged, and says why it could not
        """
        self._stands.clear()
        problems: list[str] = []
        busy = [mark for mark in self._marks() if not self._put_back(mark, problems)]
        if not busy:
            return problems
        why = unmerge()
        for mark in busy:
            if why is not None or not self._put_back(mark, problems):
                detail = why or "pages of it are merged again"
                problems.append(f"{mark.subject} stays in partition {mark.after} of KSM: {detail}")
        return problems

    def _put_back(self, mark: Mark, problems: list[str]) -> bool:
        """False where pages of the process are merged: the mark is kept, as after any other failure."""
        pid = pid_of(mark.instance)
        try:
            # Where something else stands by now, somebody has set it since, or it never came to the write.
            if instance_runs(self._root, mark.instance) and read_partition(self._root, pid) == int(mark.after):
                set_partition(self._root, pid, int(mark.before))
        except PartitionBusy:
            return False
        except (ProcessGone, InterfaceMissing):
            LOG.debug("%s has ended", mark.subject)
        except KernelInterfaceError as error:
            problems.append(f"{mark.subject}: {error}")
            return True
        self._ledger.remove(mark.subject, mark.knob)
        return True

    def _conflict(self, domain: DomainObservation, seen: int) -> Verdict | None:
        """Whether somebody else has put it where it is."""
        mark = self._mark_of(domain)
        # Before: an agent that was killed between its mark and its write.
        mine = {str(DEFAULT)} if mark is None else {str(DEFAULT), mark.before, mark.after}
        if str(seen) in mine:
            return None
        detail = f"somebody has put it into partition {seen} of KSM; 0 in /proc/PID/ksm_partition hands it over"
        return Verdict(Answer.CONFLICT, Reason.OTHER_MANAGER, detail)

    def _write(
        self, domain: DomainObservation, seen: int, number: int, separate: Callable[[], Verdict]
    ) -> Verdict | None:
        """Why it could not be, or None.

        :raises KernelInterfaceError: the kernel refuses it for another reason than merged pages
        """
        assert domain.process is not None
        instance, pid = domain.process.instance, domain.process.pid
        known = self._mark_of(domain)

        def write() -> None:
            if known is not None and known.after == str(seen):
                # By way of where it was at first, so that no moment is without a mark that tells of it.
                set_partition(self._root, pid, int(known.before))
            self._ledger.put(Mark(domain.uuid, PARTITION_KNOB, str(seen), str(number), instance, self._now()))
            set_partition(self._root, pid, number)

        try:
            try:
                write()
            except PartitionBusy:
                out = separate()
                if not out.ok:
                    self._unmark(domain, known)
                    return out
                write()
        except PartitionBusy:
            self._unmark(domain, known)
            return Verdict(
                Answer.REFUSED,
                Reason.PARTITION,
                f"memory of QEMU's own is merged in partition {seen} of KSM: it leaves that when it is started anew",
            )
        except KernelInterfaceError:
            self._unmark(domain, known)
            raise
        return None

    def _unmark(self, domain: DomainObservation, known: Mark | None) -> None:
        """What stands there is what stood there before."""
        self._ledger.remove(domain.uuid, PARTITION_KNOB)
        if known is not None:
            self._ledger.put(known)

    def _mark_of(self, domain: DomainObservation) -> Mark | None:
        assert domain.process is not None
        mark = self._ledger.get(domain.uuid, PARTITION_KNOB)
        return mark if mark is not None and mark.instance == domain.process.instance else None

    def _marks(self) -> list[Mark]:
        return [mark for mark in self._ledger.all() if mark.knob == PARTITION_KNOB]
