"""The planner's formulas over arrays: what `memhint.planner` says of one host, for all hosts at once.

Only for what a simulation has: VMs that run and are observed in every step, none excluded but who is guaranteed, no
minimum, no KSM, no NUMA binding, and nothing but VMs in swap. Every operation is the planner's own in the same order,
on whole bytes below 2^53, so that both agree to the byte; a property test holds it. No I/O, no clock.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from memhint.objects.plan import Bound
from memhint.planner.earned_ratio import ALL, HALF, Earned
from memhint.planner.growth import AGES, LEVELS, GrowthTable
from memhint.planner.ladder import LadderState, is_scarce, next_ladder
from memhint.planner.pressure import PressureSample
from memhint.planner.promise import hysteresis
from memhint.planner.relief.relieve import fruitless, relieve
from memhint.planner.settings import PlannerSettings
from memhint.planner.storm import of_sums
from memhint.sim.earned import EarnedOfHosts, Looks, caps
from memhint.sim.fleet import Bools, Floats, Ints
from memhint.sim.windows import HostWindow

BOUNDS = (Bound.MODEL, Bound.NOW, Bound.BACK, Bound.RATIO, Bound.RATE, Bound.PRESSURE)
_PART = 1 << 20  # a square of less than 2^40: thousands of them add up exactly
_RATE, _PRESSURE = BOUNDS.index(Bound.RATE), BOUNDS.index(Bound.PRESSURE)


@dataclass(frozen=True, slots=True)
class Vms:
    """The VMs that are there, one value each. Bytes; ``born`` is when each was first seen, in planner's seconds."""

    host: Ints
    assigned: Floats
    use: Floats
    former: Floats  # the use of the step before; NaN for one that was not there
    born: Floats
    group: Ints  # anti-affinity group; -1 for none
    guaranteed: Bools | None = None  # its class; None: of none


@dataclass(frozen=True, slots=True)
class Hosts:
    """What is seen of each host. Bytes."""

    pool: int
    swap: int
    available: Floats
    resident: Floats


@dataclass(frozen=True, slots=True)
class Promise:
    """What each host promises, which of `BOUNDS` it is bound by, and two terms on the way there. Bytes."""

    want: Floats
    spare: Floats
    headroom: Floats
    bound: Ints
    entered: Bools  # under pressure: not admitting
    most: Floats  # the ratio that may be promised at most


class Forecast(Protocol):
    """One predictor over arrays, with what it remembers."""

    def forecast(self, vms: Vms, now: float, hosts: int) -> Floats:
        """What each VM may come to use, within [use, assigned]."""


class Twin:
    """The planner's state of all hosts, moved by one observation at a time."""

    def __init__(
        self,
        hosts: int,
        settings: PlannerSettings,
        table: GrowthTable | None = None,
        earned: Sequence[Earned] = (),
    ) -> None:
        self._hosts = hosts
        self.earned = EarnedOfHosts(hosts, earned)
        self._floors = Floors(table) if table is not None and settings.growth_floor else None
        self._settings = settings
        self._other = HostWindow(settings.other_window)
        self._fault_in = HostWindow(settings.fault_in_window)
        self._at: float | None = None
        self._ladders: dict[int, LadderState] = {}  # of hosts under pressure
        self._seen: list[tuple[float, Floats]] = []  # percent available, of the last moments
        self._entered = np.zeros(hosts, dtype=bool)
        self._scarce = np.zeros(hosts, dtype=bool)
        self._headroom = np.zeros(hosts)
        self._fresh = np.ones(hosts, dtype=bool)  # hosts of which nothing was seen yet

    def forget(self, hosts: Bools) -> None:
        """The agents of these hosts start without anything that they knew. Who calls has their VMs forgotten, too:
        `Forecast`, ``born`` and ``former``.
        """
        if not hosts.any():
            return
        self._fresh |= hosts
        self._other.forget(hosts)
        self._fault_in.forget(hosts)
        self.earned.forget(hosts)
        for host in np.flatnonzero(hosts).tolist():
            self._ladders.pop(host, None)
        for _, percent in self._seen:
            percent[hosts] = np.nan

    def plan(self, vms: Vms, hosts: Hosts, forecast: Forecast, now: float) -> Promise:
        """One cycle of `memhint.planner.plan.plan` for every host."""
        settings, count = self._settings, self._hosts
        self._other.add(now, np.maximum(0.0, hosts.pool - hosts.available - hosts.resident))
        elapsed = 0.0 if self._at is None else max(0.0, now - self._at)
        if elapsed > 0.0:
            grown = np.maximum(0.0, vms.use - vms.former)
            grown[np.isnan(grown)] = 0.0
            rate = per_host(vms, grown, count) / elapsed
            rate[self._fresh] = np.nan
            self._fault_in.add(now, rate)
        self._pressure(hosts, now)
        expected = forecast.forecast(vms, now, count)
        if self._floors is not None:
            expected = np.maximum(expected, self._floors.of(vms, now))
        demand = grown_up(vms, expected, now, settings)
        if vms.guaranteed is not None:
            demand = np.where(vms.guaranteed, vms.assigned, demand)
        found, bound, want, kept, most = self._found(vms, hosts, demand, now)
        if self._fresh.any():
            nominal = hosts.pool - settings.reserve_of(hosts.pool) - per_host(vms, vms.assigned, count)
            self._headroom = np.where(self._fresh, np.maximum(0.0, nominal), self._headroom)
        self._headroom, bound = self._promise(found, bound, hosts.pool, elapsed)
        self._at = now
        self._fresh[:] = False
        return Promise(want, kept, self._headroom.copy(), bound, self._entered.copy(), most)

    def _found(self, vms: Vms, hosts: Hosts, demand: Floats, now: float) -> tuple[Floats, Ints, Floats, Floats, Floats]:
        """`memhint.planner.capacity.capacity`: headroom, bound, want, spare and the ratio at most."""
        settings, count = self._settings, self._hosts
        want, kept = per_host(vms, demand, count), self._spare(vms, vms.assigned - demand)
        reserve = settings.reserve_of(hosts.pool)
        base, other = hosts.pool - reserve, np.trunc(self._other.peak())
        usual = np.full(count, settings.max_ratio)
        found, bound = self._least(vms, hosts, want, kept, other, usual)
        if settings.earned_max_ratio <= settings.max_ratio:
            return found, bound, want, kept, usual
        settled = now - vms.born >= settings.new_vm_decay
        if vms.guaranteed is not None:
            settled &= ~vms.guaranteed
        failed = (per_host(vms, vms.use, count) > base - other) | self._scarce
        share = self.earned.share()
        suffices = self.earned.suffices() & ~failed
        most = caps(
            suffices, share, base - other + np.zeros(count), base, settings.max_ratio, settings.earned_max_ratio
        )
        whole = vms.assigned.astype(np.int64)
        counted = np.minimum(whole, -(-whole * share[vms.host] // ALL)).astype(np.float64)
        counted = np.where(settled, counted, np.maximum(demand, counted))
        present = np.where(settled, vms.use, demand)
        courses = [(per_host(vms, one, count), self._spare(vms, vms.assigned - one)) for one in (counted, present)]
        joint = np.maximum(courses[0][0], courses[1][0])
        come = demand - present
        half = courses[1][0] + self._storm(vms, come, per_host(vms, come, count), HALF)
        spare = np.maximum(np.maximum(courses[0][0] + courses[0][1], courses[1][0] + courses[1][1]), half) - joint
        more, by = self._least(vms, hosts, joint, spare, other, most)
        better = suffices & (more > found)
        own = np.where(settled, 1.0, 0.0)
        looks = Looks(per_host(vms, vms.use * own, count), per_host(vms, vms.assigned * own, count), base, failed)
        self.earned.add(looks, now)
        return (
            np.where(better, more, found),
            np.where(better, by, bound),
            np.where(better, joint, want),
            np.where(better, spare, kept),
            np.where(better, most, usual),
        )

    def _least(
        self, vms: Vms, hosts: Hosts, want: Floats, kept: Floats, other: Floats, most: Floats
    ) -> tuple[Floats, Ints]:
        """The least term of the formula, never below 0, and which it is."""
        assigned = per_host(vms, vms.assigned, self._hosts)
        reserve = self._settings.reserve_of(hosts.pool)
        model = hosts.pool - reserve - other - want - kept
        free = hosts.available - reserve - np.maximum(0.0, want - hosts.resident) - kept
        back = hosts.pool - reserve - other + hosts.swap + self._settings.allow_unbacked - assigned
        ceiling = np.trunc(most * max(0, hosts.pool - reserve)) - assigned
        terms = np.stack([model, free, back, ceiling])
        return np.maximum(0.0, terms.min(axis=0)), terms.argmin(axis=0)

    def _promise(self, found: Floats, bound: Ints, pool: int, elapsed: float) -> tuple[Floats, Ints]:
        """`next_headroom`, and nothing under pressure."""
        settings, before = self._settings, self._headroom
        step = int(pool * settings.raise_percent_per_minute / 100 * max(0.0, elapsed) / 60)
        trifle = hysteresis(pool, settings)
        raised = np.where(found - before < trifle, before, np.minimum(found, before + np.where(self._fresh, 0, step)))
        headroom = np.where(self._entered, 0.0, np.where(found <= before, found, raised))
        waits = found - headroom >= max(1, trifle)
        bound = np.where(self._entered, _PRESSURE, np.where(waits, _RATE, bound))
        return headroom, bound

    def _spare(self, vms: Vms, distance: Floats) -> Floats:
        kept = np.zeros(self._hosts)
        np.maximum.at(kept, vms.host, distance)
        member = np.flatnonzero(vms.group >= 0)
        if self._settings.spare_for_group and member.size:
            groups = int(vms.group.max()) + 1
            places = vms.host[member] * groups + vms.group[member]
            sums = np.bincount(places, weights=distance[member], minlength=self._hosts * groups)
            kept = np.maximum(kept, sums.reshape(self._hosts, groups).max(axis=1))
        rate = self._fault_in.quantile(0.99)
        surge = np.trunc(rate * (self._settings.period + self._settings.lever_latency))
        total = per_host(vms, distance, self._hosts)
        storm = self._storm(vms, distance, total, self._settings.storm_percent)
        return np.minimum(total, np.maximum(np.maximum(surge, storm), kept))

    def _storm(self, vms: Vms, distance: Floats, total: Floats, percent: int) -> Floats:
        """`storm_reserve` of every host. Squares have more bits than a float: they are added in parts."""
        if not percent:
            return np.zeros(self._hosts)
        high = np.floor(distance / _PART)
        low = distance - high * _PART
        parts = [per_host(vms, values, self._hosts) for values in (high * high, high * low, low * low)]
        found = np.zeros(self._hosts)
        for host in range(self._hosts):
            upper, middle, lower = (int(part[host]) for part in parts)
            squares = upper * _PART * _PART + 2 * middle * _PART + lower
            found[host] = of_sums(int(total[host]), squares, percent)
        return found

    def _pressure(self, hosts: Hosts, now: float) -> None:
        """The planner's own ladder, for those few hosts that run short or have not come down yet.

        A simulation has one of its signals, available memory, and no guest that could be asked for anything.
        """
        ladder = self._settings.ladder
        available = 100.0 * hosts.available / hosts.pool
        short = available <= max((one.limits.available_enter for one in ladder.rungs), default=-1.0)
        for host in self._ladders.keys() | set(np.flatnonzero(short).tolist()):
            sample = PressureSample(psi_some=None, swap_in=None, available=float(available[host]))
            looks = ((at, float(percent[host])) for at, percent in self._seen)
            calm = LadderState(seen=tuple(look for look in looks if not math.isnan(look[1])))
            state = next_ladder(self._ladders.get(host, calm), sample, now, ladder)
            relief = relieve(state.rungs, (), {}, frozenset(), 0, ladder)
            self._ladders[host] = state.after(fruitless(relief, ladder))
            if not state.entered:
                del self._ladders[host]
        # As `memhint.planner.ladder.look_again` keeps it for the next look.
        older = [place for place, (at, _) in enumerate(self._seen) if at <= now - ladder.climb]
        self._seen = [one for one in self._seen[older[-1] if older else 0 :] if one[0] >= now - 2 * ladder.climb]
        self._seen.append((now, available))
        self._entered = np.zeros(self._hosts, dtype=bool)
        self._entered[list(self._ladders)] = True
        self._scarce = np.zeros(self._hosts, dtype=bool)
        self._scarce[[host for host, state in self._ladders.items() if is_scarce(state, ladder)]] = True


class Floors:
    """`memhint.planner.growth.floor` of many VMs."""

    def __init__(self, table: GrowthTable) -> None:
        self._percent = np.array([[one.percent for one in row] for row in table.cells])

    def of(self, vms: Vms, now: float) -> Floats:
        """What VMs like each of these came to; 0 where nobody knows."""
        rows = np.maximum(0, np.searchsorted(AGES, now - vms.born, side="right") - 1)
        assigned = vms.assigned.astype(np.int64)
        columns = np.searchsorted(LEVELS, -(-100 * vms.use.astype(np.int64) // np.maximum(1, assigned)))
        found: Floats = (assigned * self._percent[rows, columns] // 100).astype(np.float64)
        return found


def grown_up(vms: Vms, forecast: Floats, now: float, settings: PlannerSettings) -> Floats:
    """D of a forecast: falls from assigned to it within ``new_vm_decay`` of a VM's birth."""
    demand = forecast.copy()
    age = now - vms.born
    new = np.flatnonzero(age < settings.new_vm_decay)
    left = 1.0 - np.maximum(0.0, age[new]) / settings.new_vm_decay if new.size else 0.0
    assigned = vms.assigned[new]
    demand[new] = np.minimum(assigned, demand[new] + np.trunc((assigned - demand[new]) * left) + 1)
    return demand


def per_host(vms: Vms, values: Floats, hosts: int) -> Floats:
    """The sum of each host's VMs: exact for whole bytes."""
    # without any VM it would be integers
    return np.bincount(vms.host, weights=values, minlength=hosts).astype(np.float64, copy=False)
