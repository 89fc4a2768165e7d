"""Hosts that could exist: what VMs take, what else runs and what is available add up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from hypothesis import strategies as st

from memhint.objects.domain import DomainObservation, DomainState
from memhint.objects.guest import GuestKernel, GuestMemory
from memhint.objects.host import HostObservation, HugetlbPool, NumaNode, VmsCgroup
from memhint.objects.plan import Capacity, PredictorName
from memhint.objects.policy import Origin, effective
from memhint.objects.units import GIB, MIB
from memhint.planner.earned_ratio import Day, Earned
from memhint.planner.growth import GrowthTable
from memhint.planner.plan import Planned, Sight, plan
from memhint.planner.settings import PlannerSettings
from memhint.planner.state import PlannerState, start
from tests.unit import builders

PAGE = 4096
LATER = 1000.0  # seconds between the two looks: every VM of the first one is old by then
# What the formula gives is to be seen, not how slowly it may be promised.
SETTINGS = PlannerSettings(
    reserve=1 * GIB,
    reserve_percent=0,
    max_ratio=3.0,
    earned_max_ratio=6.0,  # of which nothing is seen without evidence
    raise_percent_per_minute=6000,
    raise_hysteresis_percent=0,
    forecast_window=48 * LATER / 10,
)


@dataclass(frozen=True)
class Vm:
    """One VM, its memory in bytes at the first look and at the second."""

    size: int
    before: int
    rss: int
    swap: int = 0
    state: DomainState = DomainState.RUNNING
    facts: Mapping[str, Any] = field(default_factory=dict)
    policy: Mapping[str, str] = field(default_factory=dict)
    guest: GuestMemory | None = None
    kernel: GuestKernel | None = None
    new: bool = False  # not there at the first look
    paused: bool = False  # since the first look

    def seen(self, number: int, rss: int, swap: int, state: DomainState | None = None) -> DomainObservation:
        state = state or self.state
        on = state is not DomainState.SHUTOFF
        return builders.domain_observation(
            uuid=f"vm-{number}",
            name=f"vm-{number}",
            state=state,
            facts=builders.facts(memory=self.size, **self.facts),
            process=builders.process(pid=number + 1, rss=rss, swap=swap, ksm_zero=0) if on else None,
            guest=self.guest,
            guest_kernel=self.kernel,
        )

    @property
    def on_huge_pages(self) -> bool:
        return bool(self.facts.get("hugepages"))


@dataclass(frozen=True)
class World:
    """A host with its VMs. ``free`` is what is left at the second look."""

    vms: tuple[Vm, ...]
    free: int
    other: int = 2 * GIB
    swap_total: int = 256 * GIB
    swap_of_others: int = 0
    merged: int = 0
    hugetlb: int = 0
    nodes: tuple[NumaNode, ...] = ()
    psi: float = 0.0
    killed: int | None = 0  # for want of memory

    @property
    def total(self) -> int:
        taken = sum(vm.rss for vm in self.vms if not vm.on_huge_pages)
        return self.free + self.other + taken - self.merged + self.hugetlb

    def host(self, available: int, swapped: int = 0) -> HostObservation:
        """:param swapped: bytes of the VMs that are swapped out; what finds no room in this world is not told"""
        used = min(self.swap_total, self.swap_of_others + swapped)
        return builders.host_observation(
            memory=builders.host_memory(
                total=self.total, available=available, swap_total=self.swap_total, swap_used=used
            ),
            vms=VmsCgroup("/sys/fs/cgroup/machine.slice", max(0, used - self.swap_of_others)),
            ksm=builders.ksm(pages_sharing=self.merged // PAGE, zero_pages=0),
            hugetlb=(HugetlbPool(2 * MIB, self.hugetlb // (2 * MIB), 0),),
            numa=self.nodes,
            pressure=builders.pressure(some_avg10=self.psi),
            oom_kills=self.killed,
        )

    def look(
        self,
        state: PlannerState,
        now: float,
        settings: PlannerSettings,
        sight: Sight = Sight.CLEAR,
        growth: GrowthTable | None = None,
    ) -> Planned:
        """The second look, or one like it."""
        domains = [
            vm.seen(number, vm.rss, vm.swap, DomainState.PAUSED if vm.paused else None)
            for number, vm in enumerate(self.vms)
        ]
        return plan(
            self.host(self.free, sum(vm.swap for vm in self.vms)),
            domains,
            self.policies(),
            state,
            now,
            settings,
            sight=sight,
            growth=growth,
        )

    def first_look(self, settings: PlannerSettings) -> PlannerState:
        domains = [vm.seen(number, vm.before, 0) for number, vm in enumerate(self.vms) if not vm.new]
        there = [vm for vm in self.vms if not vm.new and not vm.on_huge_pages]
        taken = sum(vm.before for vm in there)
        merged = min(self.merged, taken)  # KSM was on before, too: it must not hide what else runs
        available = self.total - self.hugetlb - self.other - taken + merged
        host = replace(self, merged=merged, psi=0.0).host(max(0, available))
        host = replace(host, memory=replace(host.memory, total=self.total))
        return plan(host, domains, self.policies(), start(settings), 0.0, settings).state

    def policies(self):
        return {f"vm-{number}": effective({Origin.OPERATOR: dict(vm.policy)}) for number, vm in enumerate(self.vms)}


def capacity_of(
    world: World,
    settings: PlannerSettings = SETTINGS,
    predictor: PredictorName = PredictorName.DECAYING_PEAK,
    *,
    sight: Sight = Sight.CLEAR,
    growth: GrowthTable | None = None,
    earned: Earned | None = None,
) -> Capacity:
    """What is promised at the second look."""
    chosen = replace(settings, predictor=predictor)
    before = world.first_look(chosen)
    return world.look(replace(before, earned=earned or before.earned), LATER, chosen, sight, growth).plan.capacity


def earned_by(worst: int) -> Earned:
    """The past of a host that was full for four weeks, and whose VMs used so many thousandths at their worst."""
    return Earned(tuple(Day(number, 24, worst) for number in range(-28, 0)))


@st.composite
def vms(draw: st.DrawFn) -> Vm:
    size = draw(st.integers(1, 64)) * GIB // 4
    share = st.integers(0, 16)
    rss = size * draw(share) // 16
    return Vm(size, size * draw(share) // 16, rss, draw(st.integers(0, 4)) * (size - rss) // 4)


@st.composite
def worlds(draw: st.DrawFn, min_vms: int = 0) -> World:
    found = tuple(draw(st.lists(vms(), min_size=min_vms, max_size=5)))
    # Whatever the VMs took at the first look must have fitted too.
    shrunk = sum(max(0, vm.before - vm.rss) for vm in found)
    return World(
        found,
        free=shrunk + draw(st.integers(0, 64)) * GIB,
        other=draw(st.integers(0, 8)) * GIB,
        swap_total=draw(st.sampled_from([0, 8, 64, 256])) * GIB,
        swap_of_others=draw(st.sampled_from([0, 0, 2, 60])) * GIB,
    )
