"""Tiering: what VMs use lies on fast NUMA nodes, what they do not on slow ones, and a scattered VM on one.

Ranges are moved by move_pages (doc/tiering.md has the rule). Nothing is left to undo: a page is at one node or at the
other, and the VM's own memory policy is never changed.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from memhint.kernel.errors import InterfaceMissing, KernelInterfaceError
from memhint.kernel.guest_nodes import Bounds, read_bounds, where
from memhint.kernel.memcg import CgroupVersion
from memhint.kernel.move_pages import PageMover
from memhint.kernel.numa import Watermarks, numa_nodes, watermarks
from memhint.kernel.process_cgroup import home
from memhint.kernel.psi import read_pressure
from memhint.kernel.root import KernelRoot
from memhint.kernel.tiers import kernel_tiers, memory_tiers
from memhint.levers.failed import failed
from memhint.levers.lever import HostLever, LeverContext, PassResult
from memhint.levers.tiering_moves import Carrier, Done
from memhint.levers.tiering_verdicts import Pass, foretold, observed_of, unread, verdict_of
from memhint.objects.domain import DomainObservation, DomainState
from memhint.objects.heat import HeatMap
from memhint.objects.host import HostObservation
from memhint.objects.lever import LeverName, LeverState
from memhint.objects.ownership import HOST
from memhint.objects.policy import Policy
from memhint.objects.units import MIB, mib
from memhint.objects.verdict import Answer, Reason, Verdict
from memhint.planner.owed import owed
from memhint.planner.page_cache import left_of, own_files
from memhint.planner.tiering import (
    Move,
    MoveLimits,
    Share,
    TieringPlan,
    Tiers,
    VmMemory,
    beyond,
    choose,
    not_this_vm,
    pieces_of,
)

_AGAIN = 600.0  # seconds until it is looked again where a VM's mappings are
_LOOKING = 0.01  # of a CPU: what looking takes at most where it is done earlier than asked for
_NOTHING_TO_UNDO = "nothing to put back: pages stay where they are, and no policy was changed"


@dataclass(frozen=True, slots=True)
class TieringSettings:
    """What the operator allows."""

    rate: int = 100 * MIB  # bytes a second
    threads: int = 2
    every: float = 60.0  # seconds from one pass to the next, at most
    patience: float = 20.0  # seconds of one pass
    hot: float = 20.0  # seconds in use
    cold: float = 300.0  # seconds untouched, of what makes room that is to be free
    exchange: float = 30.0  # seconds untouched, of what makes room for something hot
    psi_stop: float = 5.0  # percent of time that the VM, or something on the host, waits for memory
    free_percent: float = 5.0  # of a fast node
    overhead: int = 128 * MIB  # QEMU's own memory, per VM


class TieringLever(HostLever[TieringPlan]):
    """move_pages over the VMs of a host."""

    name = LeverName.TIERING
    share = 0.01

    def __init__(
        self,
        root: KernelRoot,
        heat: Callable[[Collection[str]], Mapping[str, HeatMap]],
        reserve: Callable[[int], int],
        settings: TieringSettings,
        clock: Callable[[], float],
        sleep: Callable[[float], None],
        cpu: Callable[[], float] = time.thread_time,
    ) -> None:
        """:param heat: which ranges these VMs use, as far as it is known; asked for, it is found out for the next time
        :param reserve: what the host keeps of a NUMA node of so many bytes
        :param cpu: CPU seconds of the thread that asks
        """
        self._root = root
        self._heat = heat
        self._reserve = reserve
        self._settings = settings
        self._clock = clock
        self._sleep = sleep
        self._cpu = cpu
        self._stopped = threading.Event()
        self._bounds: dict[str, tuple[float, Bounds]] = {}  # by process: when they were read
        self._stalled: dict[str, tuple[float, int]] = {}
        self._last: tuple[float, TieringPlan, PassResult] | None = None
        self._kept: Mapping[int, Watermarks] = {}  # as of the pass under way
        self._owed: Mapping[int, int] = {}  # the same: by node, bytes for VMs that are bound to it
        self._files = 0  # the same: bytes of page cache that are VMs' memory
        self._known = float("-inf")  # when it was found out what is in use, as of the last pass
        self._looking = 0.0  # CPU seconds of the last look

    def interrupt(self) -> None:
        """End the pass under way after the ranges that it is at."""
        self._stopped.set()

    def reconcile(
        self, plan: TieringPlan, domains: Sequence[DomainObservation], host: HostObservation, *, dry_run: bool
    ) -> PassResult:
        """Move what lies on the wrong node, as far as one pass may."""
        heat = self._heat(plan.members)
        newest = max((one.at for one in heat.values()), default=float("-inf"))
        if self._last is not None and self._last[1] == plan and not self._due(self._last[0], newest):
            return self._last[2]
        self._known = newest
        verdicts = {uuid: Verdict(Answer.REFUSED, Reason.LIMITS, why) for uuid, why in plan.refused.items()}
        if not plan.members:
            return PassResult(verdicts, Verdict(Answer.UNCHANGED, Reason.OPT_OUT, "no VM's policy allows it"))
        try:
            outcome = self._pass(plan.members, domains, heat, dry_run=dry_run)
        except KernelInterfaceError as error:
            verdict = failed(error)
            outcome = PassResult(dict.fromkeys(plan.members, verdict), verdict)
        outcome = PassResult({**verdicts, **outcome.verdicts}, outcome.host)
        self._last = (self._clock(), plan, outcome)
        return outcome

    def _due(self, last: float, newest: float) -> bool:
        """Whether it is time for another pass: at once where more is known, so that what is hot need not wait."""
        since = self._clock() - last
        early = newest > self._known and since >= self._looking / _LOOKING
        return early or since >= self._settings.every

    def held(self, missing: str) -> Verdict:
        """While not all VMs are known: nothing is moved."""
        return Verdict(Answer.PENDING, Reason.NONE, f"nothing is moved while {missing}")

    def undo(self, domains: Sequence[DomainObservation], host: HostObservation) -> Verdict:
        """Nothing is put back."""
        self._stopped.clear()
        return Verdict(Answer.UNCHANGED, Reason.NONE, _NOTHING_TO_UNDO)

    def states(
        self,
        domains: Sequence[DomainObservation],
        host: HostObservation,
        plan: TieringPlan,
        policies: Mapping[str, Policy],
        outcome: PassResult,
    ) -> Iterable[LeverState]:
        """Of every VM, and of the host where a VM's policy allows it."""
        for one in domains:
            wished = policies[one.uuid].tiering
            verdict = outcome.verdicts.get(one.uuid, outcome.host) if wished else Verdict(Answer.UNCHANGED)
            yield LeverState(self.name, one.uuid, "on" if wished else "off", observed_of(verdict, wished), verdict)
        if plan.members:
            yield LeverState(self.name, HOST, "on", observed_of(outcome.host, wished=True), outcome.host)

    def outcomes(self, plan: TieringPlan | None, outcome: PassResult) -> Iterable[LeverState]:
        """What a pass brought about."""
        if plan is not None:
            for uuid, verdict in outcome.verdicts.items():
                yield LeverState(self.name, uuid, "on", observed_of(verdict, wished=True), verdict)

    def _pass(
        self,
        members: Mapping[str, Share],
        domains: Sequence[DomainObservation],
        heat: Mapping[str, HeatMap],
        *,
        dry_run: bool,
    ) -> PassResult:
        tiers, refusal = self._look_at_host(domains)
        if tiers is None or refusal is not None:
            assert refusal is not None
            return PassResult(dict.fromkeys(members, refusal), refusal)
        work, began = Pass(tiers), self._cpu()
        fast = sum(node.total for node in numa_nodes(self._root) if node.node in tiers.fast)
        too_much = beyond(members, fast)
        self._forget({one.process.instance for one in domains if one.process is not None})
        for one in domains:
            share = members.get(one.uuid)
            if share is None:
                continue
            if too_much is not None and share.least:
                work.verdicts[one.uuid] = Verdict(Answer.REFUSED, Reason.LIMITS, too_much)
                continue
            self._look_at(one, share, heat.get(one.uuid), work)
        most = int(self._settings.rate * self._settings.patience)
        limits = MoveLimits(most, self._settings.hot, self._settings.cold, self._settings.exchange)
        moves = choose(tuple(work.memory.values()), tiers, limits)
        self._looking = self._cpu() - began
        if dry_run:
            return foretold(moves, work)
        return self._carried(moves, work)

    def _look_at_host(self, domains: Sequence[DomainObservation]) -> tuple[Tiers | None, Verdict | None]:
        try:
            tiers = memory_tiers(self._root)
        except InterfaceMissing as error:
            return None, Verdict(Answer.UNSUPPORTED, Reason.KERNEL, f"no NUMA: {error}")
        if sum(map(len, tiers)) < 2:
            return None, Verdict(Answer.UNSUPPORTED, Reason.ONE_NODE, "this host has one NUMA node with memory")
        if len(tiers) > 1 and kernel_tiers(self._root):
            detail = (
                "the kernel moves memory between tiers itself: numa_balancing is 2 or 3; write 0 or 1 to leave it here"
            )
            return None, Verdict(Answer.CONFLICT, Reason.OTHER_MANAGER, detail)
        waiting = read_pressure(self._root).some_avg10
        if waiting >= self._settings.psi_stop:
            return None, Verdict(
                Answer.REFUSED, Reason.PRESSURE, f"the host waits for memory {waiting:g} % of the time"
            )
        self._kept = watermarks(self._root)
        slow = tuple(node for tier in tiers[1:] for node in tier)
        with_memory = {node for tier in tiers for node in tier}
        self._owed = owed(domains, with_memory, self._settings.overhead)
        self._files = own_files(domains)
        return Tiers(tiers[0], slow, self._room(tiers[0])), None

    def _room(self, fast: Sequence[int], kept: float = 1.0) -> dict[int, int]:
        """What each node may still take. Page cache goes when somebody needs its place, unless it is a VM's memory.

        What the kernel keeps free is none of it: there every move would end with ENOMEM. Nor is what VMs may still take
        that can have memory nowhere else: they are killed where it is gone.

        :param kept: the part of what is to stay free that does
        """
        found = {}
        for node in numa_nodes(self._root):
            least = self._reserve(node.total)
            if node.node in fast:
                least = max(least, int(node.total * self._settings.free_percent / 100))
            if node.total:
                marks = self._kept.get(node.node, Watermarks())
                # what was chosen up to the one may come out a little larger, and still be had up to the other
                kernel = marks.high if kept == 1.0 else marks.low
                taken = max(int(least * kept), kernel) + self._owed.get(node.node, 0)
                found[node.node] = left_of(node, self._files) - taken
        return found

    def _look_at(self, one: DomainObservation, share: Share, heat: HeatMap | None, work: Pass) -> None:
        """Where a VM's memory lies; a verdict where it may not be moved."""
        refusal = not_this_vm(one)
        if refusal is not None:
            work.verdicts[one.uuid] = refusal
            return
        assert one.process is not None
        instance, pid = one.process.instance, one.process.pid
        try:
            bounds = self._bounds_of(one, instance, pid)
            nodes = bounds.nodes & work.tiers.room.keys()
            if one.facts.numa_strict:
                nodes &= frozenset(one.facts.numa_nodes)
            if len(nodes) < 2:
                left = f"node {min(nodes)} alone" if nodes else "no node for all of it"
                detail = f"its XML, its cpuset and its mappings' own policy leave it {left}"
                work.verdicts[one.uuid] = Verdict(Answer.UNSUPPORTED, Reason.ONE_NODE, detail)
                return
            if not bounds.spans:
                detail = "it has no memory of its own that could be moved: it is shared, or of a file"
                work.verdicts[one.uuid] = Verdict(Answer.UNSUPPORTED, Reason.DEVICE, detail)
                return
            with PageMover(self._root, instance) as mover:  # a pass over all VMs holds none of them
                lying = tuple(where(mover, bounds.spans))
        except KernelInterfaceError as error:
            work.verdicts[one.uuid] = failed(error)
            return
        home_ = frozenset[int]() if one.facts.numa_strict else bounds.home & nodes
        work.memory[one.uuid] = VmMemory(one.uuid, pieces_of(lying, heat), nodes, share, home_)
        work.instances[one.uuid], work.pids[one.uuid] = instance, pid
        if heat is None and work.tiers.slow:
            work.blind[one.uuid] = unread(one)

    def _bounds_of(self, one: DomainObservation, instance: str, pid: int) -> Bounds:
        at, found = self._bounds.get(instance, (float("-inf"), None))
        now = self._clock()
        if found is None or now - at >= _AGAIN:
            found = read_bounds(self._root, pid)
            if one.state is DomainState.RUNNING:  # a QEMU that is still starting has not made all of its memory
                self._bounds[instance] = (now, found)
        return found

    def _forget(self, instances: Collection[str]) -> None:
        self._bounds = {name: kept for name, kept in self._bounds.items() if name in instances}

    def _carried(self, moves: Sequence[Move], work: Pass) -> PassResult:
        self._stalled = {}
        carrier = Carrier(
            lambda: self._room(work.tiers.fast, kept=0.5),  # what was chosen may come out a little larger
            lambda uuid: self._trouble(uuid, work.pids[uuid]),
            self._clock,
            self._sleep,
            rate=self._settings.rate,
            threads=self._settings.threads,
            patience=self._settings.patience,
            stop=self._stopped.is_set,
        )
        done = carrier.carry(moves, lambda uuid: PageMover(self._root, work.instances[uuid]))
        for uuid, memory in work.memory.items():
            work.verdicts[uuid] = verdict_of(done.get(uuid, Done()), memory, work)
        size = sum(one.bytes for one in done.values())
        answer = Answer.APPLIED if size else Answer.UNCHANGED
        return PassResult(work.verdicts, Verdict(answer, Reason.NONE, f"{mib(size)} MiB were moved"))

    def _trouble(self, uuid: str, pid: int) -> Verdict | None:
        """Why nothing more of this VM is to be moved now."""
        waiting = read_pressure(self._root).some_avg10
        if waiting >= self._settings.psi_stop:
            return Verdict(Answer.REFUSED, Reason.PRESSURE, f"the host waits for memory {waiting:g} % of the time")
        try:
            place = home(self._root, pid)
        except InterfaceMissing:
            return None  # in the root cgroup: the host's pressure is what there is
        if place.version is CgroupVersion.V1 or place.for_many:
            return None
        pressure, now = read_pressure(self._root, place.path), self._clock()
        began, stalled = self._stalled.setdefault(uuid, (now, pressure.some_total_us))
        # avg10 moves every two seconds only; what it waited since the pass began shows at once
        share = (pressure.some_total_us - stalled) / 10_000 / max(now - began, 10.0)
        worst = max(share, pressure.some_avg10)
        if worst < self._settings.psi_stop:
            return None
        return Verdict(Answer.REFUSED, Reason.STALLS, f"it waits for its memory {worst:.1f} % of the time")


def build(context: LeverContext) -> TieringLever:
    """The lever of a host."""
    options = context.conf.tiering
    settings = TieringSettings(
        rate=options.rate_mib * MIB,
        threads=options.threads,
        every=options.every,
        hot=options.hot,
        cold=options.cold,
        exchange=options.exchange,
        psi_stop=options.psi_stop,
        free_percent=options.free_percent,
        overhead=context.settings.overhead,
    )
    return TieringLever(
        context.root, context.heat, context.settings.node_reserve_of, settings, time.monotonic, time.sleep
    )
