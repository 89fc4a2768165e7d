"""One look at the host and every VM: what libvirt, the kernel and the guests say, joined."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from memhint.agent.active_reads import ActiveReads
from memhint.agent.deep_reads import DeepReads
from memhint.agent.processes import Processes
from memhint.agent.vms_cgroup import VmsCgroupReads
from memhint.guest.source_balloon import from_balloon_stats
from memhint.guest.sources import best
from memhint.kernel.errors import InterfaceMissing
from memhint.kernel.host import observe_host, read_memory
from memhint.kernel.psi import read_pressure
from memhint.kernel.root import PAGE_SIZE, KernelRoot
from memhint.kernel.thp import compaction_waits
from memhint.objects.domain import DomainFacts, DomainObservation, DomainState, ProcessMemory
from memhint.objects.gap import Gap, GapReason
from memhint.objects.guest import GuestKernel, GuestMemory
from memhint.objects.host import HostObservation
from memhint.objects.ownership import Mark
from memhint.objects.units import KIB
from memhint.planner.compaction import HugeWaits
from memhint.planner.exclusions import outdated
from memhint.planner.plan import Sight
from memhint.planner.pressure import PressureSample, Waits
from memhint.virt.domain_xml import Definition
from memhint.virt.errors import VirtError
from memhint.virt.stats import DomainStats


class DefinitionSource(Protocol):
    """Where the domains' definitions come from."""

    def read(self, uuids: Iterable[str], now: float) -> tuple[dict[str, Definition], dict[str, Gap]]:
        """The definitions of these domains, and why one could not be read."""

    def invalidate(self, uuid: str) -> None:
        """Read this one again the next time."""


@dataclass(frozen=True, slots=True)
class GuestNews:
    """The newest that is known of one guest through its agent."""

    memory: GuestMemory | None = None
    kernel: GuestKernel | None = None
    gap: Gap | None = None
    instance: str = ""  # the QEMU process of the guest that said it, where that was known

    def of(self, process: ProcessMemory | None) -> GuestNews:
        """The same where it may be of this process: what the guest was before its VM was started again is not it."""
        if process is None or self.instance in ("", process.instance):
            return self
        return GuestNews(gap=Gap("guest", GapReason.PENDING, "not asked since its VM was started again"))


@dataclass(frozen=True, slots=True)
class Observation:
    """One cycle's view."""

    host: HostObservation
    domains: tuple[DomainObservation, ...]
    gaps: tuple[Gap, ...]
    sight: Sight
    listed: bool = True
    """Whether libvirt has said which VMs there are, be it a while ago; if not, ``domains`` is empty."""
    outdated: bool = False
    """Whether that is so long ago that others may run by now."""
    unread: frozenset[str] = frozenset()
    """UUIDs of VMs that run, and of which no more than the size is known: neither whose they are nor what they are."""
    marks: Mapping[str, Sequence[Mark]] = field(default_factory=dict)
    """What VMs brought along, by UUID."""
    arrivals: int = 0
    """How many VMs, and parts of their memory, had come when this look began."""


class Observer:
    """Looks. A part that fails becomes a gap; only the host's own memory is indispensable."""

    def __init__(
        self,
        root: KernelRoot,
        stats: Callable[[], Sequence[DomainStats]],
        definitions: DefinitionSource,
        processes: Processes,
        deep: DeepReads,
        guests: Callable[[str], GuestNews],
        *,
        memory_cgroup: str | None,
        pressure_cgroup: str | None,
        guest_max_age: float,
        list_max_age: float,
        list_timeout: float,
        overhead: int,
        active: ActiveReads | None = None,
        discarded: Callable[[Sequence[DomainObservation]], Sequence[DomainObservation]] = tuple,
        arrivals: Callable[[], int] = lambda: 0,
    ) -> None:
        """:param guest_max_age: seconds after which a guest's word counts for nothing
        :param list_max_age: seconds after which a list of VMs does
        :param list_timeout: seconds that libvirt may take to say it
        :param overhead: bytes that QEMU itself takes for a VM
        :param active: says how much of the VMs' memory is in use
        :param discarded: adds QEMU's own counters to the VMs, where they may be read
        :param arrivals: how many VMs, and parts of their memory, libvirt has told of
        """
        self._root = root
        self._stats = stats
        self._definitions = definitions
        self._processes = processes
        self._deep = deep
        self._guests = guests
        self._memory_cgroup = memory_cgroup
        self._pressure_cgroup = pressure_cgroup
        self._guest_max_age = guest_max_age
        self._list_max_age = list_max_age
        self._list_timeout = list_timeout
        self._overhead = overhead
        self._active = active
        self._discarded = discarded
        self._arrivals = arrivals
        self._vms = VmsCgroupReads(root, PAGE_SIZE)
        self._last: Sequence[DomainStats] | None = None
        self._listed_at = float("-inf")
        self._states: dict[str, DomainState] = {}  # as of the last look
        self._pool = 0  # bytes, as of the last look

    def inherit(self, before: Observer) -> None:
        """Go on from the list of VMs of an earlier observer of this process, until libvirt says it again, and from what
        is known of their QEMUs and where they are.
        """
        self._last, self._listed_at = before._last, before._listed_at
        self._processes.inherit(before._processes)
        self._deep.inherit(before._deep)
        self._vms.inherit(before._vms)

    def look(self, at: float, monotonic: float) -> Observation:
        """Observe.

        :param at: unix seconds, for what is shown
        :raises KernelInterfaceError: when not even the host's memory can be read
        """
        gaps: list[Gap] = []
        arrivals = self._arrivals()  # before the list: one that comes now may be in it, and is looked at again
        sight, outdated = Sight.CLEAR, False
        try:
            self._last = list(self._stats())
            self._listed_at = monotonic
        except VirtError as error:
            # The VMs do not go away because libvirtd does: what they take is still read from their processes.
            gaps.append(error.gap("bulk statistics"))
            outdated = monotonic - self._listed_at > self._list_max_age
            sight = Sight.BLIND if outdated else Sight.STALE
        listed = self._last or []
        for one in listed:
            # One that starts, or was restored, has another definition than before; the event may come after the list.
            if self._states.get(one.uuid, one.state) is not one.state:
                self._definitions.invalidate(one.uuid)
        self._states = {one.uuid: one.state for one in listed}
        definitions, missing = self._definitions.read([one.uuid for one in listed], monotonic)
        # Listed a moment ago and gone now: not a VM any more.
        listed = [one for one in listed if one.uuid not in missing or missing[one.uuid].reason is not GapReason.GONE]
        processes, process_gaps = self._read_processes(listed, definitions)
        self._deep.want(processes)
        if self._active is not None:
            sizes = {uuid: one.facts.memory for uuid, one in definitions.items()}
            resting = [one.uuid for one in listed if one.state is not DomainState.RUNNING]
            self._active.want(processes, sizes, resting)
        domains = []
        unread = frozenset(
            one.uuid for one in listed if one.uuid not in definitions and one.state is not DomainState.SHUTOFF
        )
        for one in listed:
            definition = definitions.get(one.uuid)
            own = [gap for gap in (missing.get(one.uuid), process_gaps.get(one.uuid)) if gap is not None]
            if definition is None:
                definition = _from_stats(one)
                known = sight is not Sight.BLIND and definition.facts.memory > 0
                sight = Sight.STALE if known else Sight.BLIND
            elif one.uuid in missing:
                # It changed, or may have: its size is what libvirt says now, and what else it is by now is not known.
                size = max(definition.facts.memory, _from_stats(one).facts.memory)
                definition = replace(definition, facts=replace(definition.facts, memory=size))
                sight = Sight.STALE if sight is Sight.CLEAR else sight
            domains.append(self._join(one, definition, processes.get(one.uuid), own, at))
        host = observe_host(self._root, at, memory_cgroup=self._memory_cgroup, pressure_cgroup=self._pressure_cgroup)
        self._pool = host.pool
        host = self._vms.add_to(host, processes, process_gaps, monotonic)
        return Observation(
            host,
            tuple(self._discarded(domains)),
            tuple(gaps),
            sight,
            listed=self._last is not None,
            outdated=outdated,
            unread=unread,
            marks={uuid: definition.marks for uuid, definition in definitions.items() if definition.marks},
            arrivals=arrivals,
        )

    def glance(self) -> PressureSample:
        """The host's signals that cost next to nothing, between two cycles.

        :raises KernelInterfaceError: when they cannot be read
        """
        memory = read_memory(self._root, self._memory_cgroup)
        try:
            psi = read_pressure(self._root, self._pressure_cgroup).some_avg10
        except InterfaceMissing:
            psi = None
        # Of the pool, as a cycle has it: what lies in pools of huge pages is nobody's to have.
        pool = self._pool or memory.total
        available = 100.0 * memory.available / pool if pool else 0.0
        return PressureSample(psi, None, available, vms=Waits(self._vms.pressure()))

    def huge_waits(self) -> HugeWaits | None:
        """Who waits for huge pages, which costs next to nothing, too. None where the kernel does not count it.

        :raises KernelInterfaceError: when it cannot be read
        """
        found = compaction_waits(self._root)
        return None if found is None else HugeWaits(*found)

    def _read_processes(
        self, listed: Sequence[DomainStats], definitions: Mapping[str, Definition]
    ) -> tuple[dict[str, ProcessMemory], dict[str, Gap]]:
        names = {one.uuid: one.name for one in listed if one.state is not DomainState.SHUTOFF}
        most = {
            one.uuid: max(definitions[one.uuid].facts.memory, _from_stats(one).facts.memory) + self._overhead
            for one in listed
            if one.uuid in definitions
        }
        return self._processes.read(names, most)

    def _join(
        self,
        one: DomainStats,
        definition: Definition,
        process: ProcessMemory | None,
        gaps: list[Gap],
        at: float,
    ) -> DomainObservation:
        facts = definition.facts
        gaps = gaps + [Gap("policy metadata", GapReason.MALFORMED, fault) for fault in definition.faults]
        news = GuestNews()
        memory: GuestMemory | None = None
        kernel: GuestKernel | None = None
        if one.state is DomainState.RUNNING:
            news = self._guests(one.uuid).of(process)
            balloon = from_balloon_stats(one.balloon, at, facts.memory, self._list_timeout)
            readings = [reading for reading in (news.memory, balloon) if isinstance(reading, GuestMemory)]
            chosen = best(readings, at, self._guest_max_age)
            memory = chosen if isinstance(chosen, GuestMemory) else None
            gaps += [gap for gap in (news.gap, balloon, chosen) if isinstance(gap, Gap)]
            kernel = news.kernel
            if kernel is not None and abs(at - kernel.at) > self._guest_max_age:  # the clock may have been set back
                gaps.append(Gap("guest kernel", GapReason.TIMEOUT, "what the guest said of it is too old"))
                kernel = outdated(kernel)
        active = None
        if self._active is not None and process is not None:
            active, gap = self._active.newest(one.uuid)
            gaps += [gap] if gap is not None else []
        deep = self._deep.newest(one.uuid) if process is not None else None
        if process is not None and deep is not None and deep.zero_other:
            # That reading is older: what was written since is resident now. A page is in one of these places only.
            most = max(0, facts.memory + self._overhead - process.footprint)
            process = replace(process, zero_other=min(deep.zero_other, most))
        actual = one.balloon.get("balloon.current")
        return DomainObservation(
            uuid=one.uuid,
            name=one.name,
            state=one.state,
            facts=facts,
            process=process,
            deep=deep,
            guest=memory,
            guest_kernel=kernel,
            balloon_actual=actual * KIB if isinstance(actual, int) else None,
            gaps=tuple(gaps),
            active=active,
        )


def facts_of(domains: Sequence[DomainObservation]) -> Mapping[str, DomainFacts]:
    """The facts by domain UUID, of those whose definition was read."""
    return {one.uuid: one.facts for one in domains if one.defined}


def _from_stats(one: DomainStats) -> Definition:
    """What the bulk call itself says of a VM's size, until its definition can be read: it may be bound to any nodes."""
    maximum = one.balloon.get("balloon.maximum")
    return Definition(DomainFacts(memory=maximum * KIB if isinstance(maximum, int) else 0, numa_strict=True))
