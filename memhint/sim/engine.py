"""One fleet under one policy, step by step: departures, use, plan, arrivals."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np

from memhint.objects.units import GIB
from memhint.planner.earned_ratio import Earned
from memhint.planner.ratio import QUANTUM
from memhint.planner.settings import PlannerSettings
from memhint.sim.fleet import Fleet, Floats, Ints
from memhint.sim.forecasts import forecast_of
from memhint.sim.oracle import Future
from memhint.sim.policy import Oracle, Planned, Policy
from memhint.sim.table import Table
from memhint.sim.twin import BOUNDS, Hosts, Twin, Vms

DAY = 86400.0
_PER = round(1 / QUANTUM)


class Strategy(StrEnum):
    """Which of the hosts that have room gets a VM."""

    MOST_HEADROOM = "most-headroom"
    FIRST_FIT = "first-fit"


@dataclass(frozen=True, slots=True)
class Series:
    """One value per step, all hosts together."""

    placed: Ints  # VMs
    assigned: Floats  # bytes by flavors
    demand: Floats  # bytes of VMs and other work
    highest: Floats  # demand of the fullest host, in parts of its memory
    violating: Ints  # hosts


@dataclass(frozen=True, slots=True)
class SimulationResult:
    """What came of one policy. Means and the peak are of the steps after the warm-up, all else of all steps."""

    policy: str
    hosts: int
    asked: int
    admitted: int
    departed: int
    killed: int  # by the kernel, out of memory
    placed_share: float  # of those who asked, or of their memory: the less of the two. Who was killed is not placed
    placed_mean: float
    placed_peak: int
    assigned_mean: float  # bytes by flavors
    ratio_mean: float  # assigned, in parts of the memory that is not reserved
    violation_minutes: float  # Σ over hosts
    violation_share: float  # of all hosts' minutes
    worst_host_share: float  # of the time of the host that violated longest
    vm_violation_minutes: float  # Σ over VMs on hosts that violated
    swapped_gib_hours: float  # Σ of what did not fit into memory
    storm_violation_share: float | None  # of all hosts' minutes in a storm; None without a storm
    worst: float  # the most by which a host was over, in parts of its memory; 0 without a violation
    guaranteed_minutes: float | None  # Σ over guaranteed VMs whose own memory was short; None without any
    guaranteed_killed: int
    oom_events: int  # hosts and steps
    ratio_moves: int
    ratio_moves_per_host_day: float
    bounds: dict[str, float]  # how often each rule bound the headroom, in parts of all hosts' steps
    series: Series = field(repr=False, compare=False)


def simulate(
    fleet: Fleet,
    policy: Policy,
    settings: PlannerSettings,
    *,
    strategy: Strategy = Strategy.MOST_HEADROOM,
    groups: bool = False,
    progress: Callable[[int], None] = lambda step: None,
) -> SimulationResult:
    """Run a fleet under a policy. The same arguments give the same outcome.

    A host violates in a step in which the footprint of its VMs and its other work exceed memory − reserve, and runs
    out of memory when they exceed memory and swap: then its largest VMs are killed until the rest fits.

    :param groups: whether the planner is told that the VMs of a storm belong together
    :param progress: called with the number of each step before it
    """
    run = Run(fleet, policy, settings, strategy=strategy, groups=groups)
    for step in range(fleet.steps):
        progress(step)
        run.step(step)
    return run.outcome()


class Run:
    """A simulation under way."""

    def __init__(
        self,
        fleet: Fleet,
        policy: Policy,
        settings: PlannerSettings,
        *,
        strategy: Strategy = Strategy.MOST_HEADROOM,
        groups: bool = False,
    ) -> None:
        self.table = Table()
        self.flavors = np.zeros(fleet.hosts)  # bytes that VMs hold by their flavors
        self.limit = np.zeros(fleet.hosts)  # bytes that they may hold
        self.room = np.full(fleet.hosts, math.inf)  # bytes for A: promised, and not yet taken by a new VM
        self.admitted = self.departed = self.killed = 0
        self._fleet, self._policy, self._strategy = fleet, policy, strategy
        self._groups = groups
        self._reserve = settings.reserve_of(fleet.shape.pool)
        self._usable = fleet.shape.pool - self._reserve - fleet.shape.other
        self._overhead = settings.overhead
        if isinstance(policy, Planned):
            self._twin, self._predictor = (
                Twin(fleet.hosts, policy.settings, policy.growth, policy.earned),
                forecast_of(policy.settings),
            )
        elif isinstance(policy, Oracle):
            self._future = Future(fleet, self._usable)
            self.limit[:] = math.inf
        else:
            self.limit[:] = policy.ratio * self._usable
        self._ratio: Floats | None = None
        self._next = 0
        self._ooms = self._moves = 0
        self._worst = 0.0
        self._over = np.zeros(fleet.hosts, dtype=np.int64)  # steps in which each host violated
        self._vms_over = 0  # VMs and steps on them
        self._guaranteed_over = self._guaranteed_killed = 0  # of those that are guaranteed
        self._swapped = 0.0  # bytes and steps
        self._stormed = self._over_in_storm = 0  # hosts and steps
        self._asked = self._placed = 0  # of those whom an empty host could take by flavors
        self._asked_memory = self._placed_memory = self._killed_memory = 0.0  # the same, in bytes
        self._bounds = np.zeros(len(BOUNDS), dtype=np.int64)
        self._series = Series(
            placed=np.zeros(fleet.steps, dtype=np.int64),
            assigned=np.zeros(fleet.steps),
            demand=np.zeros(fleet.steps),
            highest=np.zeros(fleet.steps),
            violating=np.zeros(fleet.steps, dtype=np.int64),
        )

    def step(self, step: int) -> None:
        """One step, in order from 0."""
        gone = np.flatnonzero(self.table["departure"] <= step)
        self.departed += gone.size
        self._remove(gone)
        use = self._footprints(step)
        self._observe(step, use)  # before the kernel kills: a host that runs out is over, whoever goes then
        if self._killed_for_want(use):
            use = self._footprints(step)
            self._demand = self._demand_of(use)
        if isinstance(self._policy, Planned):
            self._plan(step, use)
        self.table["former"][:] = use
        self._arrive(step)
        self._series.placed[step] = len(self.table)
        self._series.assigned[step] = self.flavors.sum()

    def _remove(self, gone: Ints) -> None:
        if not gone.size:
            return
        np.subtract.at(self.flavors, self.table["host"][gone], self.table["memory"][gone])
        source, target = self.table.remove(gone)
        if isinstance(self._policy, Planned):
            self._predictor.move(source, target, len(self.table))

    def _demand_of(self, use: Floats) -> Floats:
        """What each host is asked for, its other work included."""
        by_host = np.bincount(self.table["host"], weights=use, minlength=self._fleet.hosts).astype(np.float64)
        return by_host + self._fleet.shape.other

    def _killed_for_want(self, use: Floats) -> bool:
        """Whether the kernel has killed VMs, of hosts on which they exceed memory and swap."""
        most = self._fleet.shape.pool + self._fleet.shape.swap
        out = np.flatnonzero(self._demand > most)
        if not out.size:
            return False
        self._ooms += out.size
        victims: list[int] = []
        for host in out:
            there = np.flatnonzero(self.table["host"] == host)
            # The kernel takes who is guaranteed last: memhint lowers its score.
            there = there[np.lexsort((-use[there], self.table["guaranteed"][there]))]
            over = self._demand[host] - most
            freed = np.cumsum(use[there])
            victims.extend(there[: int(np.searchsorted(freed, over)) + 1])
        self.killed += len(victims)
        self._guaranteed_killed += int(self.table["guaranteed"][victims].sum())
        memory = self.table["memory"][victims]
        self._killed_memory += float(memory[memory + self._overhead <= self._usable].sum())
        self._remove(np.array(sorted(victims), dtype=np.int64))
        return True

    def _footprints(self, step: int) -> Floats:
        fleet, table = self._fleet, self.table
        memory = table["memory"]
        use: Floats = np.floor(table["offset"] + table["scale"] * fleet.levels[step].take(table["row"]))
        np.minimum(use, memory, out=use)
        if fleet.storms.size and fleet.storms[step]:
            use = np.where(table["stormy"], memory, use)
        use += fleet.own
        return np.fmax(use, table["former"]) if fleet.sticky else use

    def _observe(self, step: int, use: Floats) -> None:
        shape = self._fleet.shape
        demand = self._demand = self._demand_of(use)
        over = demand - (shape.pool - self._reserve)
        self._worst = max(self._worst, float(over.max()) / shape.pool)
        violating = over > 0
        self._over += violating
        self._vms_over += int(violating[self.table["host"]].sum())
        if self._fleet.guaranteed.size:  # what lacks is taken from the others first
            held = self.table["guaranteed"]
            own = np.bincount(self.table["host"], weights=use * held, minlength=self._fleet.hosts) + shape.other
            self._guaranteed_over += int((own > shape.pool - self._reserve)[self.table["host"][held]].sum())
        self._swapped += float(np.clip(demand - shape.pool, 0.0, shape.swap).sum())
        if self._fleet.storms.size and self._fleet.storms[step]:
            self._stormed += self._fleet.hosts
            self._over_in_storm += int(violating.sum())
        self._series.violating[step] = int(violating.sum())
        self._series.demand[step] = demand.sum()
        self._series.highest[step] = demand.max() / shape.pool

    def _plan(self, step: int, use: Floats) -> None:
        assert isinstance(self._policy, Planned)
        shape, table, now = self._fleet.shape, self.table, step * self._fleet.step
        losing = self._fleet.losing(step)
        lost = losing[table["host"]]
        self._twin.forget(losing)
        self._predictor.forget(lost)
        born = table["born"]
        born[lost] = np.nan
        born[np.isnan(born)] = now
        assigned = np.maximum(table["memory"] + self._overhead, use)
        vms = Vms(
            host=table["host"],
            assigned=assigned,
            use=use,
            former=np.where(lost, np.nan, table["former"]),
            born=born,
            group=np.where(table["stormy"] & self._groups, 0, -1),
            guaranteed=table["guaranteed"] if self._fleet.guaranteed.size else None,
        )
        # What does not fit in memory is in swap, and other work is not.
        resident = np.minimum(self._demand, shape.pool) - shape.other
        hosts = Hosts(shape.pool, shape.swap, shape.pool - shape.other - resident, resident)
        promise = self._twin.plan(vms, hosts, self._predictor, now)
        self._bounds += np.bincount(promise.bound, minlength=len(BOUNDS))
        self.room = promise.headroom
        steps = ratio_steps(self.flavors + promise.headroom, self._usable, promise.most)
        if self._ratio is not None:
            self._moves += int((steps != self._ratio).sum())
        self._ratio = steps
        self.limit = steps / _PER * self._usable

    def _arrive(self, step: int) -> None:
        """Give each VM that asks a host that has room for it, or none. What one takes the next cannot have."""
        fleet, overhead = self._fleet, self._overhead
        first = self._next
        while self._next < fleet.vms and fleet.arrival[self._next] <= step:
            self._next += 1
        clairvoyant = isinstance(self._policy, Oracle)
        course = np.zeros(0)
        free = np.minimum(self.limit - self.flavors, self.room - overhead)
        placed: list[tuple[int, int]] = []
        for vm in range(first, self._next):
            memory = fleet.memory[vm]
            # Who fits no empty host by flavors is no measure of a policy.
            countable = memory + overhead <= self._usable
            self._asked += countable
            self._asked_memory += memory * countable
            if clairvoyant:  # it has room as soon as it has as much as this VM will need
                course = fleet.course(vm)
                free = self._future.room(vm, course) + memory
            host = int((free >= memory).argmax() if self._strategy is Strategy.FIRST_FIT else free.argmax())
            if free[host] < memory:
                continue
            self.flavors[host] += memory
            self.room[host] -= memory + overhead
            if not clairvoyant:
                free[host] = min(self.limit[host] - self.flavors[host], self.room[host] - overhead)
            placed.append((vm, host))
            self._placed += countable
            self._placed_memory += memory * countable
            if clairvoyant:
                self._future.take(vm, host, course)
        if placed:
            vms, hosts = np.array(placed, dtype=np.int64).T
            self.table.append(fleet, vms, hosts)
            self.admitted += len(placed)
            if isinstance(self._policy, Planned):
                self._predictor.append(len(placed))

    @property
    def earned(self) -> tuple[Earned, ...]:
        """What the hosts have earned under a policy that lets them."""
        return self._twin.earned.records()

    def outcome(self) -> SimulationResult:
        """What came of it, once all steps are done."""
        fleet, series = self._fleet, self._series
        counted = slice(fleet.warm_up, None)
        host_steps = fleet.hosts * fleet.steps
        host_days = host_steps * fleet.step / DAY
        violating = int(series.violating.sum())
        assigned = float(series.assigned[counted].mean())
        bounds = {str(bound): int(count) / host_steps for bound, count in zip(BOUNDS, self._bounds, strict=True)}
        return SimulationResult(
            policy=self._policy.name,
            hosts=fleet.hosts,
            asked=self._next,
            admitted=self.admitted,
            departed=self.departed,
            killed=self.killed,
            placed_share=self._placed_share(),
            placed_mean=float(series.placed[counted].mean()),
            placed_peak=int(series.placed[counted].max()),
            assigned_mean=assigned,
            ratio_mean=assigned / (fleet.hosts * self._usable),
            violation_minutes=violating * fleet.step / 60.0,
            violation_share=violating / host_steps,
            worst_host_share=int(self._over.max()) / fleet.steps,
            vm_violation_minutes=self._vms_over * fleet.step / 60.0,
            guaranteed_minutes=self._guaranteed_over * fleet.step / 60.0 if fleet.guaranteed.size else None,
            guaranteed_killed=self._guaranteed_killed,
            swapped_gib_hours=self._swapped * fleet.step / 3600.0 / GIB,
            storm_violation_share=self._over_in_storm / self._stormed if self._stormed else None,
            worst=max(0.0, self._worst),
            oom_events=self._ooms,
            ratio_moves=self._moves,
            ratio_moves_per_host_day=self._moves / host_days,
            bounds=bounds if isinstance(self._policy, Planned) else {},
            series=series,
        )

    def _placed_share(self) -> float:
        if not self._asked:
            return 1.0
        memory = (self._placed_memory - self._killed_memory) / self._asked_memory
        return max(0.0, min((self._placed - self.killed) / self._asked, memory))


def ratio_steps(wanted: Floats, usable: int, most: float | Floats) -> Floats:
    """`memhint.planner.ratio.ratio` of every host, in quanta."""
    steps: Floats = np.minimum(np.maximum(0.0, wanted) * _PER // usable, np.floor(most * _PER + 1e-9))
    return steps
