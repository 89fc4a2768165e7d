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
from posixpath import dirname

from memhint.kernel.errors import InterfaceMissing, KernelInterfaceError, ProcessGone, WriteRejected
from memhint.kernel.memcg import amount_text
from memhint.kernel.process import instance_runs
from memhint.kernel.root import PAGE_SIZE, KernelRoot
from memhint.levers.qos_pass import (
    CGROUPS,
    MIN,
    OF,
    OOM_KNOB,
    SWAP_MAX,
    Change,
    Pass,
    bytes_of,
    explained,
    file_of,
)
from memhint.levers.qos_wish import QosTarget, QosWishes, Wish
from memhint.objects.lever import LeverName, LeverState, Observed
from memhint.objects.ownership import Ledger, Mark, marking
from memhint.objects.policy import QosClass
from memhint.objects.verdict import Answer, Reason, Verdict

LOG = logging.getLogger(__name__)


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
        page_size: int = PAGE_SIZE,
    ) -> None:
        """:param host_boot: names this boot of the host; marks of another one are void"""
        self._root = root
        self._ledger = ledger
        self._host_boot = host_boot
        self._now = now
        self._wishes = QosWishes(root, page_size)

    # -- all VMs -----------------------------------------------------------------------------------------------------

    def reconcile(self, targets: Sequence[QosTarget], ceiling: int, *, dry_run: bool) -> dict[str, LeverState]:
        """Bring every VM to its class, and put back what no class asks for any more; the state per domain UUID.

        :param ceiling: bytes that may be guaranteed on this host in all
        """
        work = Pass(self._root, self._host_boot, self._ledger.all())
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
                if asks and work.released:  # what had to go leaves room for who comes after it
                    self._settle_or_say(work)
            if not dry_run and (asks or work.released):
                self._settle_or_say(work)
        return states

    def undo(self) -> Verdict:
        """Put back all that is still as memhint set it; ``conflict`` where somebody set something else meanwhile."""
        work = Pass(self._root, self._host_boot, self._ledger.all())
        if not (work.of_vms() or work.shared()):
            return Verdict(Answer.UNCHANGED)
        left = self._forget(work, set())
        verdicts = [left.get(mark.instance) or self._put_back(mark, work) for mark in work.of_vms()]
        verdicts += self._settle(work)
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
            wish = self._wishes.of(target, process, ceiling, pids, work)
            done = [*map(str, wish.changes), *self._release(target, wish, work, dry_run=dry_run)]
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

    # -- writing and putting back ------------------------------------------------------------------------------------

    def _write(self, change: Change, work: Pass) -> None:
        mark = Mark(change.subject, change.knob, change.before, change.after, change.instance, self._now())
        older = work.known(change.subject, change.knob)
        if older is not None and (older.instance != mark.instance or not explained(older, mark.before)):
            # of another life, or somebody set another value since: that is what is to be put back one day
            self._drop(older, work)
            older = None
        with marking(lambda one: self._keep(one, work), mark, older, mark.before):
            self._set(change.path, change.after)
        if change.knob.startswith(MIN + OF):
            work.moved(dirname(change.path), change.after)

    def _keep(self, mark: Mark, work: Pass) -> None:
        self._ledger.put(mark)
        work.keep(self._ledger.get(mark.subject, mark.knob) or mark)

    def _set(self, path: str, text: str) -> None:
        """Write and read back.

        :raises KernelInterfaceError: WriteRejected too when the kernel shows another value
        """
        self._root.write_text(path, text)
        shown = self._root.read_text(path).strip()
        if shown != text:
            raise WriteRejected(self._root.path(path), f"took {text} and shows {shown}")

    def _release(self, target: QosTarget, wish: Wish, work: Pass, *, dry_run: bool) -> list[str]:
        """Put back what this VM's class does not ask for any more, or must not have; in words."""
        kept: tuple[str, ...] = ()
        if target.qos is QosClass.GUARANTEED and not wish.back:
            kept = (OOM_KNOB, MIN + OF, SWAP_MAX + OF)
        elif target.qos is not QosClass.BURSTABLE:
            kept = (OOM_KNOB,)
        found = work.of(target.domain.uuid)
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
            if mark.made(seen):
                self._set(path, mark.before)
                if mark.knob.startswith(MIN + OF):
                    work.moved(dirname(path), mark.before)
        except (InterfaceMissing, ProcessGone):
            seen = mark.before  # gone, and the setting with it
        except KernelInterfaceError as error:
            return Verdict(Answer.FAILED, Reason.KERNEL, str(error))  # the mark stays: it is tried again
        self._drop(mark, work)
        if explained(mark, seen):
            return Verdict(Answer.APPLIED)
        detail = f"{mark.knob} was set to {seen} by somebody else and is left so"
        LOG.warning("qos: %s", detail)
        return Verdict(Answer.CONFLICT, Reason.OTHER_MANAGER, detail)

    def _settle_or_say(self, work: Pass) -> None:
        work.released = False
        for problem in self._settle(work):
            LOG.error("qos: %s", problem)

    def _settle(self, work: Pass) -> list[Verdict]:
        """Lower the cgroups above VMs to what is still needed of them; what did not go well."""
        verdicts, needed = [], work.above_guaranteed()
        for mark in work.shared():
            path = mark.knob.partition(OF)[2]
            try:
                if mark.instance != work.cgroup(path):
                    self._drop(mark, work)  # made again since, without memhint's setting
                elif path in needed:
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
        if mark.made(amount_text(seen)) and want < seen:
            change = Change(CGROUPS, mark.knob, f"{path}/{MIN}", amount_text(seen), amount_text(want), mark.instance)
            self._write(change, work)

    def _forget(self, work: Pass, running: set[str]) -> dict[str, Verdict]:
        """Marks of processes that ended hold for nothing any more; by instance, why that could not be seen to.

        A cgroup may outlive its VM, as a container's does, and the next VM there must not find what was set for it.
        """
        left = {}
        for mark in work.of_vms():
            try:
                if mark.instance in running or instance_runs(self._root, mark.instance):
                    continue
            except KernelInterfaceError as error:
                left[mark.instance] = Verdict(Answer.FAILED, Reason.KERNEL, str(error))
                continue
            if mark.knob == OOM_KNOB:
                self._drop(mark, work)  # that pid may be another process by now
                continue
            work.released = True
            verdict = self._put_back(mark, work)
            if verdict.answer is Answer.FAILED:
                LOG.error("qos: %s", verdict)
                left[mark.instance] = verdict
        return left

    def _drop(self, mark: Mark, work: Pass) -> None:
        self._ledger.remove(mark.subject, mark.knob)
        work.drop(mark)


def _turn(target: QosTarget, work: Pass) -> tuple[bool, str]:
    held = any(mark.knob.startswith(MIN) for mark in work.of(target.domain.uuid))
    return not held, target.domain.uuid
