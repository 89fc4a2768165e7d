"""Swap-out: a cold guest's memory goes to disk swap through its cgroup's memory.reclaim, a bounded piece at a time.

A guest is given time to show what it uses before anything is taken (swap_trial.py). A pull does not wait for that: it
ends as pending, and a later one goes on. What is in swap still counts in the footprint, so it never raises capacity.
Nothing is left to undo: a page comes back when the guest touches it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from memhint.kernel.clearings import Clearings
from memhint.kernel.encryption import encrypted
from memhint.kernel.errors import InterfaceMissing, KernelInterfaceError, WriteIncomplete
from memhint.kernel.guest_advice import Guest, GuestAdvice
from memhint.kernel.memcg import UNLIMITED, CgroupVersion, amount
from memhint.kernel.process_cgroup import Home, home, with_others
from memhint.kernel.psi import read_pressure
from memhint.kernel.root import KernelRoot
from memhint.kernel.swap import SwapArea, swap_areas
from memhint.kernel.zswap import kept_out, zswap_enabled
from memhint.levers.failed import failed
from memhint.levers.lever import LeverContext, Stop, VmLever
from memhint.levers.swap_trial import SwapTrial, TrialSettings
from memhint.objects.domain import DomainObservation
from memhint.objects.lever import LeverName, LeverState, Observed
from memhint.objects.policy import Policy
from memhint.objects.units import MIB, mib
from memhint.objects.verdict import Answer, Reason, Verdict
from memhint.planner.splits import splits_by_swap, words

_RECLAIM = "memory.reclaim"
_NOTHING_TO_UNDO = "nothing to put back: what is in swap comes back when the guest touches it"


@dataclass(frozen=True, slots=True)
class SwapOutSettings:
    """What the operator allows. Sizes in bytes."""

    allow_unencrypted: bool = False
    most: int = 256 * MIB  # of one pull
    keep_free: int = 512 * MIB  # of disk swap that a pull leaves
    psi_stop: float = 10.0  # percent of time that the VM's threads stall on memory
    piece: int = 16 * MIB  # between two looks at the pressure
    patience: float = 30.0  # seconds of one pull
    window: float = 10.0  # seconds over which a stall within a pull is judged
    settle: float = 8.0  # seconds that a guest is given to touch what it uses


@dataclass(frozen=True, slots=True)
class SwapOutTarget:
    """One VM, and whether its owner allows it (policy ``swap_out``)."""

    domain: DomainObservation
    allowed: bool


@dataclass(frozen=True, slots=True)
class SwapOutOutcome:
    """What came of one pull. Bytes."""

    verdict: Verdict
    asked: int = 0  # of the kernel, in all pieces
    reclaimed: int = 0  # by how much the cgroup's memory fell
    swapped: int = 0  # by how much its swap grew


class SwapOutLever(VmLever):
    """memory.reclaim per VM. A pull may take ``patience`` seconds and more: not for the cycle's thread."""

    name = LeverName.SWAP_OUT
    always_shown = True
    share = 0.05

    def __init__(
        self,
        root: KernelRoot,
        guest: Callable[[str], Guest],
        clearings: Clearings,
        settings: SwapOutSettings,
        clock: Callable[[], float],
    ) -> None:
        """:param guest: the memory of a QEMU process, by its instance
        :param clock: seconds, monotonic, as that of the clearings
        """
        self._root = root
        self._guest = guest
        self._settings = settings
        self._clock = clock
        trial = TrialSettings(settings.settle, first=settings.piece, most=settings.most)
        self._trial = SwapTrial(trial, clearings, clock)
        self._qemus = frozenset[int]()  # of all VMs of the host, by pid

    def knows(self, domains: Sequence[DomainObservation]) -> None:
        """Which processes are VMs: none of them may be in the cgroup of another one."""
        self._qemus = frozenset(one.process.pid for one in domains if one.process is not None)

    def state(self, domain: DomainObservation, policy: Policy, wish: int | None, verdict: Verdict | None) -> LeverState:
        """The lever's three fields for one VM; without consent what came of an earlier pull says nothing any more."""
        target = SwapOutTarget(domain, policy.swap_out)
        if verdict is None or wish is None or not target.allowed:
            verdict = self.probe(target)
        seen = Observed.UNSUPPORTED if verdict.answer is Answer.UNSUPPORTED else self.read(domain)
        return LeverState(self.name, domain.uuid, "on" if target.allowed else "off", seen, verdict)

    def pull(
        self, domain: DomainObservation, policy: Policy, wish: int | None, *, dry_run: bool, stop: Stop
    ) -> Verdict:
        """Move up to ``wish`` bytes of a VM's coldest memory to disk swap."""
        if wish is None:
            return Verdict(Answer.UNCHANGED, Reason.NONE, _NOTHING_TO_UNDO)
        return self.take(SwapOutTarget(domain, policy.swap_out), wish, dry_run=dry_run, stop=stop).verdict

    def probe(self, target: SwapOutTarget) -> Verdict:
        """Whether memory of this VM may and can be swapped out now."""
        try:
            return self._look(target)[0]
        except KernelInterfaceError as error:
            return failed(error)

    def read(self, domain: DomainObservation) -> Observed:
        """Whether a part of this VM is in swap now, by memhint or not."""
        if domain.process is None:
            return Observed.UNKNOWN
        return Observed.ON if domain.process.swap else Observed.OFF

    def take(self, target: SwapOutTarget, size: int, *, dry_run: bool, stop: Stop = lambda: False) -> SwapOutOutcome:
        """Move up to ``size`` bytes of a VM's coldest memory to disk swap, or say when that can be done.

        It ends early when the VM stalls on its memory, when the kernel finds no more to take, or with the patience.

        :param stop: asked between two pieces; True ends it
        """
        try:
            verdict, place, room = self._look(target)
            if place is None or not verdict.ok:
                return SwapOutOutcome(verdict)
            size = min(size, self._settings.most, room)
            if dry_run:
                splits = words(splits_by_swap(target.domain, size))
                what = f"reclaim up to {mib(size)} MiB of {place.path}; {splits}"
                return SwapOutOutcome(Verdict(Answer.PLANNED, Reason.DRY_RUN, what))
            assert target.domain.process is not None
            instance = target.domain.process.instance
            with self._guest(instance) as guest:
                may = self._trial.next(instance, guest, size)
                if isinstance(may, Verdict):
                    return SwapOutOutcome(may)
                outcome = self._reclaim(place.path, may, stop)
                self._trial.took(instance, guest, outcome.swapped)
            return outcome
        except KernelInterfaceError as error:
            return SwapOutOutcome(failed(error))

    def _look(self, target: SwapOutTarget) -> tuple[Verdict, Home | None, int]:
        """The verdict, and where it is good the VM's cgroup and the bytes of swap it may take."""
        refusal = _not_this_vm(target)
        if refusal is not None:
            return refusal, None, 0
        assert target.domain.process is not None
        place = home(self._root, target.domain.process.pid)
        if place.version is CgroupVersion.V1:
            detail = f"{place.path} is a cgroup of version 1, which has no {_RECLAIM}: boot the host with version 2"
            return Verdict(Answer.UNSUPPORTED, Reason.KERNEL, detail), None, 0
        if place.for_many or with_others(self._root, place, target.domain.process.pid, self._qemus):
            detail = f"its memory is charged to {place.path}, which it shares: let libvirt make cgroups for its VMs"
            return Verdict(Answer.UNSUPPORTED, Reason.SHARED_CGROUP, detail), None, 0
        if not self._root.exists(f"{place.path}/{_RECLAIM}"):
            return Verdict(Answer.UNSUPPORTED, Reason.KERNEL, f"no {_RECLAIM} here: it came with Linux 5.19"), None, 0
        pressure = read_pressure(self._root, place.path)
        room = min(self._disk_room(), self._own_room(place))
        areas = [area for area in swap_areas(self._root) if area.used < area.total]
        verdict = self._swap_verdict(areas, room, place)
        if verdict.ok and pressure.some_avg10 >= self._settings.psi_stop:
            detail = f"it stalls on memory {pressure.some_avg10:g} % of the time already"
            verdict = Verdict(Answer.REFUSED, Reason.STALLS, detail)
        return verdict, place, room

    def _swap_verdict(self, areas: Sequence[SwapArea], room: int, place: Home) -> Verdict:
        disks = [area for area in areas if not area.in_memory]
        if not disks:
            return Verdict(Answer.REFUSED, Reason.NO_SWAP, "no disk swap with room; zram is memory itself")
        first = max(area.priority for area in disks)
        ahead = [area.name for area in areas if area.in_memory and area.priority >= first]
        if ahead:
            detail = f"{', '.join(ahead)} is memory itself and is filled before the disk: give it a lower priority"
            return Verdict(Answer.REFUSED, Reason.NO_SWAP, detail)
        if zswap_enabled(self._root) and not kept_out(self._root, (place.path, *place.ancestors)):
            detail = "zswap is on and keeps what is swapped out in memory: write N to its parameter enabled"
            return Verdict(Answer.REFUSED, Reason.NO_SWAP, detail)
        if not self._settings.allow_unencrypted:
            clear = [area.name for area in disks if not encrypted(self._root, area)]
            if clear:
                detail = f"{', '.join(clear)} would keep guest memory in the clear: [swap_out] allow_unencrypted is off"
                return Verdict(Answer.REFUSED, Reason.NOT_ENCRYPTED, detail)
        if room <= 0:
            detail = f"less than {mib(self._settings.keep_free)} MiB of disk swap are free, or the VM may use no more"
            return Verdict(Answer.REFUSED, Reason.NO_SWAP, detail)
        return Verdict(Answer.UNCHANGED)

    def _disk_room(self) -> int:
        free = sum(area.total - area.used for area in swap_areas(self._root) if not area.in_memory)
        return free - self._settings.keep_free

    def _own_room(self, place: Home) -> int:
        """What the cgroup and those above it may still swap."""
        room = UNLIMITED
        for level in (place.path, *place.ancestors):
            try:
                most = amount(self._root, f"{level}/memory.swap.max")
                room = min(room, most - amount(self._root, f"{level}/memory.swap.current"))
            except InterfaceMissing:
                continue  # swap is not accounted here
        return room

    def _reclaim(self, path: str, size: int, stop: Stop) -> SwapOutOutcome:
        began, stalled = self._clock(), read_pressure(self._root, path).some_total_us
        memory, swap = self._usage(path)
        asked, ended = 0, ""
        while asked < size and not ended:
            piece = min(self._settings.piece, size - asked)
            asked += piece
            try:
                self._root.write_text(f"{path}/{_RECLAIM}", str(piece))
            except WriteIncomplete:
                ended = "the kernel found no more to take"
            ended = self._trouble(path, began, stalled) or ("told to stop" if stop() else ended)
        now_memory, now_swap = self._usage(path)
        reclaimed, swapped = max(0, memory - now_memory), max(0, now_swap - swap)
        detail = f"asked {mib(asked)} MiB, {mib(reclaimed)} MiB came back, {mib(swapped)} MiB went to swap"
        detail += f"; ended early: {ended}" if ended and asked < size else ""
        if ended.startswith(_STALL):
            return SwapOutOutcome(Verdict(Answer.REFUSED, Reason.STALLS, detail), asked, reclaimed, swapped)
        answer = Answer.APPLIED if reclaimed or swapped else Answer.UNCHANGED
        return SwapOutOutcome(Verdict(answer, Reason.NONE, detail), asked, reclaimed, swapped)

    def _trouble(self, path: str, began: float, stalled: int) -> str:
        """Why no further piece is to be taken; empty where nothing speaks against it."""
        pressure, elapsed = read_pressure(self._root, path), self._clock() - began
        # avg10 moves every two seconds only; what was stalled since the pull began shows at once
        share = (pressure.some_total_us - stalled) / 10_000 / max(elapsed, self._settings.window)
        worst = max(share, pressure.some_avg10)
        if worst >= self._settings.psi_stop:
            return f"{_STALL} {worst:.1f} % of the time"
        if elapsed >= self._settings.patience:
            return f"{self._settings.patience:g} s are over"
        return ""

    def _usage(self, path: str) -> tuple[int, int]:
        return amount(self._root, f"{path}/memory.current"), amount(self._root, f"{path}/memory.swap.current")


def build(context: LeverContext) -> SwapOutLever:
    """The lever of a host."""
    options = context.conf.swap_out
    settings = SwapOutSettings(
        allow_unencrypted=options.allow_unencrypted,
        most=options.pull_mib * MIB,
        keep_free=options.keep_free_mib * MIB,
        psi_stop=options.psi_stop,
        patience=options.patience,
        settle=options.settle,
    )
    return SwapOutLever(
        context.root,
        lambda instance: GuestAdvice(context.root, instance),
        context.clearings,
        settings,
        time.monotonic,
    )


_STALL = "it stalls on memory"


def _not_this_vm(target: SwapOutTarget) -> Verdict | None:
    if not target.allowed:
        return Verdict(Answer.UNCHANGED, Reason.OPT_OUT)
    if target.domain.process is None:
        return Verdict(Answer.PENDING, Reason.NOT_RUNNING, f"the VM is {target.domain.state}")
    facts = target.domain.facts
    if facts.locked or facts.vfio or facts.confidential or facts.hugepages:
        return Verdict(Answer.UNSUPPORTED, Reason.DEVICE, "its memory cannot be swapped: locked, pinned or huge pages")
    if facts.shared_memory or facts.file_backed:
        detail = "its memory is shared or of a file: what of it is in use cannot be seen"
        return Verdict(Answer.UNSUPPORTED, Reason.DEVICE, detail)
    return None
