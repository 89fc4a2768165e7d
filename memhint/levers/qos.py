"""QoS classes on the host: what the kernel takes from a VM under pressure, and whom it kills first.

``guaranteed``: ``memory.min`` of the VM's whole size on its cgroup and enough of it on every cgroup above,
``memory.swap.max`` 0, and a lower ``oom_score_adj``. ``best-effort``: a higher ``oom_score_adj``. ``burstable``:
nothing.

The kernel shares what a cgroup has as ``memory.min`` among its children, so a child is only protected as far as every
ancestor has at least what its children have together. An ancestor is raised to that sum, and never set below what
somebody else gave it. With systemd the path is ``machine.slice``, the VM's ``machine-qemu….scope``, ``libvirt`` in it
(since libvirt 7.1), and in that the threaded ``emulator`` and ``vcpuN``, which have no memory of their own; without
systemd it is ``machine`` and ``qemu-N-NAME.libvirt-qemu``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from posixpath import dirname

from memhint.kernel.errors import InterfaceMissing, KernelInterfaceError, ProcessGone, WriteRejected
from memhint.kernel.memcg import CgroupVersion, amount, amount_text, members, own_limit
from memhint.kernel.process import instance_runs, oom_score_adj
from memhint.kernel.process_cgroup import Home, home
from memhint.kernel.root import PAGE_SIZE, KernelRoot
from memhint.levers.qos_pass import (
    CGROUPS,
    MIN,
    OF,
    OOM_KNOB,
    SWAP_MAX,
    Change,
    Pass,
    base_of,
    bytes_of,
    claim,
    file_of,
    knob_of,
)
from memhint.objects.domain import DomainObservation, ProcessMemory
from memhint.objects.lever import LeverName, LeverState, Observed
from memhint.objects.ownership import Ledger, Mark
from memhint.objects.policy import QosClass
from memhint.objects.units import mib
from memhint.objects.verdict import Answer, Reason, Verdict

LOG = logging.getLogger(__name__)
NEVER = -1000  # the kernel's value for a process that it never kills
_LEAST, _MOST = NEVER + 1, 1000


@dataclass(frozen=True, slots=True)
class QosTarget:
    """One VM. ``size`` is what it may come to need on ordinary pages, QEMU's overhead included: bytes."""

    domain: DomainObservation
    qos: QosClass
    size: int


class QosLever:
    """The classes of one host's VMs. Only short kernel files are touched: it may run in the cycle's thread."""

    name = LeverName.QOS

    def __init__(
        self,
        root: KernelRoot,
        ledger: Ledger,
        host_boot: str,
        now: Callable[[], float],
        *,
        step: int = 500,
        page_size: int = PAGE_SIZE,
    ) -> None:
        """:param host_boot: names this boot of the host; marks of another one are void
        :param step: what ``best-effort`` adds to the oom_score_adj that was there, and ``guaranteed`` takes from it
        """
        self._root = root
        self._ledger = ledger
        self._host_boot = host_boot
        self._now = now
        self._step = step
        self._page_size = page_size

    # -- all VMs -----------------------------------------------------------------------------------------------------

    def reconcile(self, targets: Sequence[QosTarget], ceiling: int, *, dry_run: bool) -> dict[str, LeverState]:
        """Bring every VM to its class, and put back what no class asks for any more; the state per domain UUID.

        :param ceiling: bytes that may be guaranteed on this host in all
        """
        work = Pass(self._root, self._ledger.all())
        present = [one.domain.process for one in targets if one.domain.process is not None]
        if not dry_run:
            self._forget(work, {one.instance for one in present})
        pids = {one.pid for one in present}
        states = {}
        # Who leaves a guarantee makes room before who asks for one, and who has one comes before who wants one.
        for asks in (False, True):
            turn = [one for one in targets if (one.qos is QosClass.GUARANTEED) is asks]
            for target in sorted(turn, key=lambda one: _turn(one, work)):
                seen, verdict = self._bring(target, ceiling, pids, work, dry_run=dry_run)
                states[target.domain.uuid] = LeverState(self.name, target.domain.uuid, target.qos, seen, verdict)
            if not dry_run and (asks or work.released):
                for problem in self._settle(work):
                    LOG.error("qos: %s", problem)
        return states

    def undo(self) -> Verdict:
        """Put back all that is still as memhint set it; ``conflict`` where somebody set something else meanwhile."""
        work = Pass(self._root, self._ledger.all())
        if not work.marks:
            return Verdict(Answer.UNCHANGED)
        self._forget(work, set())
        verdicts = [self._put_back(mark, work) for mark in work.of_vms()] + self._settle(work)
        problems = [verdict for verdict in verdicts if not verdict.ok]
        if not problems:
            return Verdict(Answer.APPLIED, Reason.NONE, "every VM's class is taken back")
        worst = next((one for one in problems if one.answer is Answer.FAILED), problems[0])
        return Verdict(worst.answer, worst.reason, "; ".join(one.detail for one in problems))

    # -- one VM ------------------------------------------------------------------------------------------------------

    def _bring(
        self, target: QosTarget, ceiling: int, pids: set[int], work: Pass, *, dry_run: bool
    ) -> tuple[Observed, Verdict]:
        process, asks = target.domain.process, target.qos is not QosClass.BURSTABLE
        if process is None:
            waiting = Verdict(Answer.PENDING, Reason.NOT_RUNNING, f"the VM is {target.domain.state}")
            return Observed.UNKNOWN, waiting if asks else Verdict(Answer.UNCHANGED)
        try:
            wish = self._wish(target, process, ceiling, pids, work)
            done = [*map(str, wish.changes), *self._release(target, work, dry_run=dry_run)]
            work.held |= wish.held
            for change in wish.changes:
                if dry_run:
                    work.pretend(change)
                else:
                    self._write(change, work)
        except ProcessGone as error:
            return Observed.UNKNOWN, Verdict(Answer.PENDING, Reason.NOT_RUNNING, str(error))
        except KernelInterfaceError as error:
            return Observed.UNKNOWN, Verdict(Answer.FAILED, Reason.KERNEL, str(error))
        if wish.refusal is not None:
            unsupported = wish.refusal.answer is Answer.UNSUPPORTED
            return Observed.UNSUPPORTED if unsupported else Observed.OFF, wish.refusal
        if wish.conflicts:
            return Observed.OFF, Verdict(Answer.CONFLICT, Reason.OTHER_MANAGER, "; ".join(wish.conflicts))
        seen = Observed.ON if asks and not (wish.changes and dry_run) else Observed.OFF
        if not done:
            return seen, Verdict(Answer.UNCHANGED)
        if dry_run:
            return seen, Verdict(Answer.PLANNED, Reason.DRY_RUN, f"write {', '.join(done)}")
        return seen, Verdict(Answer.APPLIED, Reason.NONE, ", ".join(done))

    def _wish(self, target: QosTarget, process: ProcessMemory, ceiling: int, pids: set[int], work: Pass) -> _Wish:
        """All that has to be changed for a class, worked out before anything is written."""
        conflicts: list[str] = []
        if target.qos is QosClass.BURSTABLE:
            return _Wish([], conflicts)
        # Who is killed first needs no cgroup: it is set also where the rest of a class cannot be had.
        oom = self._oom_change(target, process, work, conflicts)
        if target.qos is QosClass.BEST_EFFORT:
            return _Wish(oom, conflicts)
        try:
            place = self._place(target, process, pids, work)
            protection = self._protection(target, place, process, ceiling, work, conflicts)
            no_swap = self._no_swap(target, place, process, work, conflicts)
        except _Refusal as refusal:
            return _Wish(oom, conflicts, refusal.verdict)
        return _Wish([*oom, *protection, *no_swap], conflicts, held=frozenset({place.path}))

    def _place(self, target: QosTarget, process: ProcessMemory, pids: set[int], work: Pass) -> Home:
        """The VM's own cgroup of version 2."""
        try:
            place = home(self._root, process.pid)
        except InterfaceMissing as error:
            raise _Refusal(Answer.UNSUPPORTED, Reason.KERNEL, str(error)) from error
        if place.version is CgroupVersion.V1:
            raise _Refusal(Answer.UNSUPPORTED, Reason.KERNEL, _what_v1_has(place.path))
        for name in (MIN, SWAP_MAX):
            if not self._root.exists(f"{place.path}/{name}"):
                raise _Refusal(Answer.UNSUPPORTED, Reason.KERNEL, f"there is no {name} in {place.path}")
        if work.mark(target.domain.uuid, knob_of(MIN, place.path), process.instance) is None:
            others = members(self._root, place.path) & (pids - {process.pid})
            # What is set there would hold for others too.
            if others or place.for_many:
                detail = f"its memory is charged to {place.path}, which it shares: let libvirt make cgroups for its VMs"
                raise _Refusal(Answer.UNSUPPORTED, Reason.SHARED_CGROUP, detail)
        return place

    def _oom_change(self, target: QosTarget, process: ProcessMemory, work: Pass, conflicts: list[str]) -> list[Change]:
        seen = oom_score_adj(self._root, process.pid)
        mark = work.mark(target.domain.uuid, OOM_KNOB, process.instance)
        base = int(mark.before) if mark is not None else seen
        best_effort = target.qos is QosClass.BEST_EFFORT
        if base == NEVER:
            # somebody decided that this process is never killed
            if best_effort:
                conflicts.append(f"{OOM_KNOB} is {NEVER}: somebody else keeps this VM from being killed")
            return []
        want = min(base + self._step, _MOST) if best_effort else max(base - self._step, _LEAST)
        if seen == want:
            return []
        if mark is not None and str(seen) not in (mark.after, mark.before):
            conflicts.append(f"{OOM_KNOB} was set to {seen} by somebody else")
            return []
        path = f"proc/{process.pid}/{OOM_KNOB}"
        return [Change(target.domain.uuid, OOM_KNOB, path, str(seen), str(want), process.instance)]

    def _protection(
        self,
        target: QosTarget,
        place: Home,
        process: ProcessMemory,
        ceiling: int,
        work: Pass,
        conflicts: list[str],
    ) -> list[Change]:
        """memory.min on the VM's cgroup and on all above, worked out before any of it is written."""
        size = min(-(-target.size // self._page_size) * self._page_size, own_limit(self._root, place.path))
        mark = work.mark(target.domain.uuid, knob_of(MIN, place.path), process.instance)
        seen = work.min(place.path)
        want = max(size, base_of(mark, seen))
        found = self._decide(target.domain.uuid, place.path, seen, want, mark, process.instance, conflicts)
        changes = [found] if found is not None else []
        below, after = place.path, want if found is not None else seen
        for level in place.ancestors:
            claims = work.claims(level) - claim(work.min(below)) + claim(after)
            if found is not None and claims > own_limit(self._root, level):
                detail = f"{mib(claims)} MiB would be guaranteed in {level}, which may use less"
                raise _Refusal(Answer.REFUSED, Reason.HEADROOM, detail)
            mark, seen = work.mark(CGROUPS, knob_of(MIN, level), self._cgroup(level)), work.min(level)
            want = max(claims, base_of(mark, seen))
            change = self._decide(CGROUPS, level, seen, want, mark, self._cgroup(level), conflicts)
            changes += [change] if change is not None else []
            below, after = level, want if change is not None else seen
        total = work.claims(place.mount) - claim(work.min(below)) + claim(after)
        if changes and total > ceiling:
            detail = f"{mib(total)} MiB would be guaranteed on this host, and {mib(max(0, ceiling))} MiB can be"
            raise _Refusal(Answer.REFUSED, Reason.HEADROOM, detail)
        # From the top, so that the last write makes all of it hold at once.
        return changes[::-1]

    def _decide(
        self,
        subject: str,
        path: str,
        seen: int,
        want: int,
        mark: Mark | None,
        instance: str,
        conflicts: list[str],
    ) -> Change | None:
        if seen == want:
            return None
        if mark is not None and amount_text(seen) not in (mark.after, mark.before):
            conflicts.append(f"{MIN} of {path} was set to {amount_text(seen)} by somebody else, {want} is needed")
            return None
        return Change(subject, knob_of(MIN, path), f"{path}/{MIN}", amount_text(seen), amount_text(want), instance)

    def _no_swap(
        self, target: QosTarget, place: Home, process: ProcessMemory, work: Pass, conflicts: list[str]
    ) -> list[Change]:
        path, knob = f"{place.path}/{SWAP_MAX}", knob_of(SWAP_MAX, place.path)
        seen = amount_text(amount(self._root, path))
        if seen == "0":
            return []
        mark = work.mark(target.domain.uuid, knob, process.instance)
        if mark is not None and seen != mark.before:
            conflicts.append(f"{SWAP_MAX} was set to {seen} by somebody else")
            return []
        return [Change(target.domain.uuid, knob, path, seen, "0", process.instance)]

    # -- writing and putting back ------------------------------------------------------------------------------------

    def _write(self, change: Change, work: Pass) -> None:
        mark = Mark(change.subject, change.knob, change.before, change.after, change.instance, self._now())
        older = work.marks.get((change.subject, change.knob))
        if older is not None and (older.instance != mark.instance or mark.before not in (older.after, older.before)):
            # of another life, or somebody set another value since: that is what is to be put back one day
            self._drop(older, work)
        self._ledger.put(mark)
        work.marks[(mark.subject, mark.knob)] = self._ledger.get(mark.subject, mark.knob) or mark
        self._set(change.path, change.after)
        if change.knob.startswith(MIN + OF):
            work.moved(dirname(change.path), change.after)

    def _set(self, path: str, text: str) -> None:
        """Write and read back.

        :raises KernelInterfaceError: WriteRejected too when the kernel shows another value
        """
        self._root.write_text(path, text)
        shown = self._root.read_text(path).strip()
        if shown != text:
            raise WriteRejected(self._root.path(path), f"took {text} and shows {shown}")

    def _release(self, target: QosTarget, work: Pass, *, dry_run: bool) -> list[str]:
        """Put back what this VM's class does not ask for any more; in words."""
        kept: tuple[str, ...] = ()
        if target.qos is QosClass.GUARANTEED:
            kept = (OOM_KNOB, MIN + OF, SWAP_MAX + OF)
        elif target.qos is QosClass.BEST_EFFORT:
            kept = (OOM_KNOB,)
        found = [mark for mark in work.of_vms() if mark.subject == target.domain.uuid]
        released = [mark for mark in found if not mark.knob.startswith(kept)] if kept else found
        if dry_run:
            return [f"{mark.knob} back to {mark.before}" for mark in released]
        work.released |= bool(released)
        verdicts = [(mark, self._put_back(mark, work)) for mark in released]
        return [f"{mark.knob} back to {mark.before}" if one.ok else one.detail for mark, one in verdicts]

    def _put_back(self, mark: Mark, work: Pass) -> Verdict:
        """One setting as it was, unless somebody changed it since; either way it is not memhint's any more."""
        path = file_of(mark)
        try:
            seen = self._root.read_text(path).strip()
            if seen == mark.after:
                self._set(path, mark.before)
                if mark.knob.startswith(MIN + OF):
                    work.moved(dirname(path), mark.before)
        except (InterfaceMissing, ProcessGone):
            seen = mark.before  # gone, and the setting with it
        except KernelInterfaceError as error:
            return Verdict(Answer.FAILED, Reason.KERNEL, str(error))  # the mark stays: it is tried again
        self._drop(mark, work)
        if seen in (mark.after, mark.before):
            return Verdict(Answer.APPLIED)
        detail = f"{mark.knob} was set to {seen} by somebody else and is left so"
        LOG.warning("qos: %s", detail)
        return Verdict(Answer.CONFLICT, Reason.OTHER_MANAGER, detail)

    def _settle(self, work: Pass) -> list[Verdict]:
        """Lower the cgroups above VMs to what is still needed of them; what did not go well."""
        verdicts = []
        for mark in work.shared():
            path = mark.knob.partition(OF)[2]
            try:
                if mark.instance != self._cgroup(path):
                    self._drop(mark, work)  # made again since, without memhint's setting
                elif work.protects_below(path):
                    self._lower(mark, path, work)
                else:
                    verdicts.append(self._put_back(mark, work))
            except InterfaceMissing:
                self._drop(mark, work)
            except KernelInterfaceError as error:
                verdicts.append(Verdict(Answer.FAILED, Reason.KERNEL, str(error)))
        return [verdict for verdict in verdicts if not verdict.ok]

    def _lower(self, mark: Mark, path: str, work: Pass) -> None:
        seen, want = work.min(path), max(work.claims(path), bytes_of(mark.before))
        if amount_text(seen) == mark.after and want < seen:
            change = Change(CGROUPS, mark.knob, f"{path}/{MIN}", mark.after, amount_text(want), mark.instance)
            self._write(change, work)

    def _forget(self, work: Pass, running: set[str]) -> None:
        """Marks of processes that ended hold for nothing any more."""
        for mark in work.of_vms():
            if mark.instance not in running and not instance_runs(self._root, mark.instance):
                self._drop(mark, work)

    def _drop(self, mark: Mark, work: Pass) -> None:
        self._ledger.remove(mark.subject, mark.knob)
        work.marks.pop((mark.subject, mark.knob), None)

    def _cgroup(self, path: str) -> str:
        return f"{self._host_boot}:{self._root.inode(path)}"


@dataclass(frozen=True, slots=True)
class _Wish:
    """What a class needs on this host: the files to be changed in this order, and what stands against it."""

    changes: list[Change]
    conflicts: list[str]
    refusal: Verdict | None = None
    held: frozenset[str] = frozenset()  # the VM's cgroup, where it is guaranteed


class _Refusal(Exception):
    """A rule forbids the class, before anything was written."""

    def __init__(self, answer: Answer, reason: Reason, detail: str) -> None:
        super().__init__(detail)
        self.verdict = Verdict(answer, reason, detail)


def _turn(target: QosTarget, work: Pass) -> tuple[bool, str]:
    held = any(mark.subject == target.domain.uuid and mark.knob.startswith(MIN) for mark in work.of_vms())
    return not held, target.domain.uuid


def _what_v1_has(path: str) -> str:
    return (
        f"{path} is a cgroup of version 1, which has no memory.min and no limit of swap alone; its memory.swappiness "
        "and memory.soft_limit_in_bytes only ask the kernel to take elsewhere first. Boot the host with version 2"
    )
