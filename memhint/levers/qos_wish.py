"""What a QoS class needs on a host, worked out before anything is written; the rules are in `qos.py`."""

from __future__ import annotations

from dataclasses import dataclass

from memhint.kernel.errors import InterfaceMissing
from memhint.kernel.memcg import CgroupVersion, amount, amount_text, own_limit
from memhint.kernel.process import oom_score_adj
from memhint.kernel.process_cgroup import Home, home, with_others
from memhint.kernel.root import KernelRoot
from memhint.levers.qos_pass import CGROUPS, MIN, OOM_KNOB, SWAP_MAX, Change, Pass, base_of, claim, explained, knob_of
from memhint.objects.domain import DomainObservation, ProcessMemory
from memhint.objects.ownership import Mark
from memhint.objects.policy import QosClass
from memhint.objects.units import mib
from memhint.objects.verdict import Answer, Reason, Verdict

NEVER = -1000  # the kernel's value for a process that it never kills
_LEAST, _MOST = NEVER + 1, 1000
STEP = 500  # what ``best-effort`` adds to the oom_score_adj that was there, and ``guaranteed`` takes from it


@dataclass(frozen=True, slots=True)
class QosTarget:
    """One VM. ``size`` is what it may come to need on ordinary pages, QEMU's overhead included: bytes."""

    domain: DomainObservation
    qos: QosClass
    size: int


@dataclass(frozen=True, slots=True)
class Wish:
    """What a class needs on this host: the files to be changed in this order, and what stands against it."""

    changes: list[Change]
    conflicts: list[str]
    refusal: Verdict | None = None
    held: frozenset[str] = frozenset()  # the VM's cgroup, where it is guaranteed
    back: bool = False  # what the class has set of the VM's cgroup must not stay


class _Refusal(Exception):
    """A rule forbids the class, before anything was written.

    With ``back`` it also does harm where it holds already.
    """

    def __init__(self, answer: Answer, reason: Reason, detail: str, *, back: bool = False) -> None:
        super().__init__(detail)
        self.verdict = Verdict(answer, reason, detail)
        self.back = back


class QosWishes:
    """Works out what the classes of a host's VMs need."""

    def __init__(self, root: KernelRoot, page_size: int) -> None:
        self._root = root
        self._page_size = page_size

    def of(self, target: QosTarget, process: ProcessMemory, ceiling: int, pids: set[int], work: Pass) -> Wish:
        """All that has to be changed for a class, worked out before anything is written."""
        conflicts: list[str] = []
        if target.qos is QosClass.BURSTABLE:
            return Wish([], conflicts)
        # Who is killed first needs no cgroup: it is set also where the rest of a class cannot be had.
        oom = self._oom_change(target, process, work, conflicts)
        if target.qos is QosClass.BEST_EFFORT:
            return Wish(oom, conflicts)
        try:
            place = self._place(process, pids)
            protection = self._protection(target, place, process, ceiling, work, conflicts)
            no_swap = self._no_swap(target, place, process, work, conflicts)
        except _Refusal as refusal:
            return Wish(oom, conflicts, refusal.verdict, back=refusal.back)
        return Wish([*oom, *protection, *no_swap], conflicts, held=frozenset({place.path}))

    def _place(self, process: ProcessMemory, pids: set[int]) -> Home:
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
        # What is set there would hold for others too. They may come later: one that may not swap there is killed.
        if place.for_many or with_others(self._root, place, process.pid, pids):
            detail = f"its memory is charged to {place.path}, which it shares: let libvirt make cgroups for its VMs"
            raise _Refusal(Answer.UNSUPPORTED, Reason.SHARED_CGROUP, detail, back=True)
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
        want = min(base + STEP, _MOST) if best_effort else max(base - STEP, _LEAST)
        if seen == want:
            return []
        if mark is not None and not explained(mark, str(seen)):
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
        """memory.min on the VM's cgroup and on all above, worked out before any of it is written.

        Limits are looked at each time: one may be lowered while the VM runs. Where what is guaranteed exceeds one, the
        kernel has only swap to go to. Without that it kills at memory.max, and lets the VM stand still at memory.high.
        """
        size = -(-target.size // self._page_size) * self._page_size
        limit = own_limit(self._root, place.path)
        if size > limit:
            detail = f"it may need {mib(size)} MiB, and {place.path} may use {mib(limit)} MiB: it must be able to swap"
            raise _Refusal(Answer.REFUSED, Reason.HEADROOM, detail, back=True)
        mark = work.mark(target.domain.uuid, knob_of(MIN, place.path), process.instance)
        seen = work.min(place.path)
        want = max(size, base_of(mark, seen))
        found = self._decide(target.domain.uuid, place.path, seen, want, mark, process.instance, conflicts)
        changes = [found] if found is not None else []
        below, after = place.path, want if found is not None else seen
        for level in place.ancestors:
            claims = work.claims(level) - claim(work.min(below)) + claim(after)
            if claims > own_limit(self._root, level):
                detail = f"{mib(claims)} MiB would be guaranteed in {level}, which may use less"
                raise _Refusal(Answer.REFUSED, Reason.HEADROOM, detail, back=True)
            mark, seen = (
                work.mark(CGROUPS, knob_of(MIN, level), work.cgroup(level)),
                work.min(level),
            )
            want = max(claims, base_of(mark, seen))
            change = self._decide(CGROUPS, level, seen, want, mark, work.cgroup(level), conflicts)
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
        if mark is not None and not explained(mark, amount_text(seen)):
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


def _what_v1_has(path: str) -> str:
    return (
        f"{path} is a cgroup of version 1, which has no memory.min and no limit of swap alone; its memory.swappiness "
        "and memory.soft_limit_in_bytes only ask the kernel to take elsewhere first. Boot the host with version 2"
    )
