"""Huge pages: what was taken from a VM in small pieces split them; once it works they are made again.

`process_madvise(MADV_COLLAPSE)` of one block of 2 MiB after another (doc/thp.md has the rule). Nothing is left to
undo.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from memhint.kernel.buddy import free_in_blocks
from memhint.kernel.errors import InterfaceMissing, KernelInterfaceError
from memhint.kernel.huge_blocks import Block, Blocks, Collapsed, GuestBlocks
from memhint.kernel.psi import read_pressure
from memhint.kernel.root import PAGE_SIZE, KernelRoot
from memhint.kernel.thp import HUGE_PAGE, huge_activity, read_thp
from memhint.levers.failed import failed
from memhint.levers.lever import LeverContext, Stop, VmLever
from memhint.objects.domain import DomainObservation
from memhint.objects.lever import LeverName, LeverState
from memhint.objects.policy import Mode, Policy
from memhint.objects.units import mib
from memhint.objects.verdict import Answer, Reason, Verdict
from memhint.planner.thp import huge_seen, not_this_vm, small_pages

if TYPE_CHECKING:
    from oslo_config import cfg

_NOTHING_TO_UNDO = "nothing to put back: a huge page is split when a part of it is taken"


@dataclass(frozen=True, slots=True)
class ThpSettings:
    """What the operator allows. Sizes in bytes."""

    cpu_share: float = 0.2  # of one core, over a pass
    psi_stop: float = 5.0  # percent of time that something on the host waits for memory
    most_absent: int = 64 * 4096  # of a block: one with more holes than that is left as it is
    patience: float = 30.0  # seconds of one pass
    rest: float = 60.0  # seconds for which a VM with nothing to do is not looked at, and all of them after a storm
    piece: int = 8  # blocks between two looks at the host
    storm: int = 4  # compactions in vain within one piece


@dataclass(slots=True)
class _Pass:
    """What one pass did."""

    collapsed: int = 0  # blocks
    added: int = 0  # bytes that had no memory before
    full_of_holes: int = 0  # blocks left alone for their holes
    busy: int = 0
    unfit: int = 0
    ended: Verdict | None = None  # what ended it early

    def __str__(self) -> str:
        text = f"{mib(self.collapsed * HUGE_PAGE)} MiB became huge pages, which took {mib(self.added)} MiB more"
        left = {"too many holes": self.full_of_holes, "in use": self.busy, "not movable": self.unfit}
        why = ", ".join(f"{count} {what}" for what, count in left.items() if count)
        return text + (f"; blocks left as they are: {why}" if why else "")


class ThpLever(VmLever):
    """MADV_COLLAPSE per VM. A wish is the bytes of one pass."""

    name = LeverName.THP
    share = 0.0

    def __init__(
        self,
        root: KernelRoot,
        blocks: Callable[[str], Blocks],
        room: Callable[[], int],
        settings: ThpSettings,
        clock: Callable[[], float],
        cpu: Callable[[], float],
        sleep: Callable[[float], None],
    ) -> None:
        """:param blocks: the memory of a QEMU process, by its instance
        :param room: bytes that the host can give away and keep its reserve
        :param clock: seconds, monotonic
        :param cpu: seconds of processor time of the thread that asks
        """
        self._root = root
        self._blocks = blocks
        self._room = room
        self._settings = settings
        self._clock = clock
        self._cpu = cpu
        self._sleep = sleep
        self._done: dict[str, float] = {}  # by process: when there was nothing left to do
        self._storm = float("-inf")  # when the kernel compacted in vain

    def state(self, domain: DomainObservation, policy: Policy, wish: int | None, verdict: Verdict | None) -> LeverState:
        """The lever's three fields for one VM."""
        if verdict is None:
            verdict = _not_this_vm(domain, policy) or self._small_pages(domain) or Verdict(Answer.UNCHANGED)
        return LeverState(self.name, domain.uuid, str(policy.thp), huge_seen(domain), verdict)

    def shown(self, domain: DomainObservation) -> bool:
        """Where nobody will ask for a VM, because it was started to have no huge pages, that is shown all the same."""
        verdict = self._small_pages(domain)
        return verdict is not None and verdict.reason is Reason.DEVICE

    def pull(
        self, domain: DomainObservation, policy: Policy, wish: int | None, *, dry_run: bool, stop: Stop
    ) -> Verdict:
        """Make huge pages of up to ``wish`` bytes of a VM's memory."""
        if wish is None:
            return Verdict(Answer.UNCHANGED, Reason.NONE, _NOTHING_TO_UNDO)
        refusal = _not_this_vm(domain, policy)
        if refusal is not None:
            return refusal
        assert domain.process is not None
        name, now = domain.process.instance, self._clock()
        self._done = {one: at for one, at in self._done.items() if now - at < self._settings.rest}
        if now - self._storm < self._settings.rest:
            return Verdict(Answer.REFUSED, Reason.NO_BLOCKS, "the kernel compacted in vain a moment ago")
        if name in self._done:
            return Verdict(Answer.UNCHANGED, Reason.NONE, "nothing was left to collapse a moment ago")
        try:
            refusal = self._not_this_host() or self._small_pages(domain) or self._trouble(domain)
            if refusal is not None:
                return refusal
            if dry_run:
                return Verdict(Answer.PLANNED, Reason.DRY_RUN, f"make huge pages of up to {mib(wish)} MiB")
            with self._blocks(name) as blocks:
                done = self._collapse(domain, blocks, wish, stop)
        except KernelInterfaceError as error:
            return failed(error)
        if done.ended is None and not done.collapsed:
            self._done[name] = now
        if done.ended is not None and not done.collapsed:
            return done.ended
        detail = str(done) if done.ended is None else f"{done}; ended early: {done.ended.detail}"
        return Verdict(Answer.APPLIED if done.collapsed else Answer.UNCHANGED, Reason.NONE, detail)

    def _not_this_host(self) -> Verdict | None:
        try:
            enabled = read_thp(self._root).enabled
        except InterfaceMissing as error:
            return Verdict(Answer.UNSUPPORTED, Reason.KERNEL, f"no transparent huge pages: {error}")
        if enabled == "never":
            # MADV_COLLAPSE would not mind; whoever wrote it does
            detail = "transparent huge pages are off on this host: transparent_hugepage/enabled is never"
            return Verdict(Answer.UNSUPPORTED, Reason.KERNEL, detail)
        return None

    def _small_pages(self, domain: DomainObservation) -> Verdict | None:
        """Why nothing will ever be collapsed of a process that has to do without; None where it has not."""
        without = small_pages(domain)
        if without is None:
            return None
        try:
            host = self._not_this_host()  # a kernel without huge pages says the same of every process
        except KernelInterfaceError as error:
            return failed(error)
        return host or without

    def _trouble(self, domain: DomainObservation) -> Verdict | None:
        """Why nothing, or nothing more, is to be collapsed now."""
        waiting = read_pressure(self._root).some_avg10
        if waiting >= self._settings.psi_stop:
            return Verdict(Answer.REFUSED, Reason.PRESSURE, f"the host waits for memory {waiting:g} % of the time")
        # Each collapse holds a huge page more for a moment.
        if self._room() < HUGE_PAGE:
            return Verdict(Answer.REFUSED, Reason.HEADROOM, "the host has nothing to give above its reserve")
        free = free_in_blocks(self._root, HUGE_PAGE)
        # The kernel makes a huge page only on the node that holds the most of its pages: of nothing near something far.
        lies = sorted(node for node, size in domain.deep.by_node.items() if size) if domain.deep is not None else []
        if any(free.values()) and (not lies or any(free.get(node) for node in lies)):
            return None
        where = f"on node {', '.join(map(str, lies))}, where its memory lies" if lies else "on this host"
        return Verdict(Answer.REFUSED, Reason.NO_BLOCKS, f"no block of 2 MiB is free {where}")

    def _collapse(self, domain: DomainObservation, blocks: Blocks, wish: int, stop: Stop) -> _Pass:
        done, began, cpu = _Pass(), self._clock(), self._cpu()
        vain, tried = huge_activity(self._root).compact_fail, 0
        room = self._room()
        for block in blocks.small():
            if block.absent > self._settings.most_absent:
                done.full_of_holes += 1
                continue
            if block.absent + HUGE_PAGE > room:
                detail = f"{mib(room)} MiB are left above the host's reserve"
                done.ended = Verdict(Answer.REFUSED, Reason.HEADROOM, detail)
                break
            done.ended = self._one(block, blocks, done)
            room -= block.absent
            tried += 1
            if done.ended is not None or tried * HUGE_PAGE >= wish:
                break
            if tried % self._settings.piece:
                continue
            # the pace: what a piece took, stretched to its share
            took = self._cpu() - cpu
            self._sleep(max(0.0, began + took / self._settings.cpu_share - self._clock()))
            failures = huge_activity(self._root).compact_fail
            if failures - vain >= self._settings.storm:
                self._storm = self._clock()
                done.ended = Verdict(Answer.REFUSED, Reason.NO_BLOCKS, "the kernel compacts in vain")
                break
            vain, room = failures, self._room()
            done.ended = self._trouble(domain)
            if done.ended is None and (stop() or self._clock() - began >= self._settings.patience):
                done.ended = Verdict(Answer.UNCHANGED, Reason.NONE, "told to stop, or its time is over")
            if done.ended is not None:
                break
        return done

    def _one(self, block: Block, blocks: Blocks, done: _Pass) -> Verdict | None:
        match blocks.collapse(block):
            case Collapsed.DONE:
                done.collapsed += 1
                done.added += block.absent
            case Collapsed.BUSY:
                done.busy += 1
            case Collapsed.UNFIT:
                done.unfit += 1
            case Collapsed.NO_BLOCK:
                self._storm = self._clock()
                return Verdict(Answer.REFUSED, Reason.NO_BLOCKS, "the kernel has no huge page left")
        return None


def settings_of(conf: cfg.ConfigOpts) -> ThpSettings:
    """What ``[thp]`` says of it."""
    options = conf.thp
    return ThpSettings(
        cpu_share=options.cpu_percent / 100, psi_stop=options.psi_stop, most_absent=options.max_absent * PAGE_SIZE
    )


def build(context: LeverContext) -> ThpLever:
    """The lever of a host."""
    return ThpLever(
        context.root,
        lambda instance: GuestBlocks(context.root, instance),
        context.room,
        settings_of(context.conf),
        time.monotonic,
        time.thread_time,
        time.sleep,
    )


def _not_this_vm(domain: DomainObservation, policy: Policy) -> Verdict | None:
    return Verdict(Answer.UNCHANGED, Reason.OPT_OUT) if policy.thp is Mode.OFF else not_this_vm(domain)
