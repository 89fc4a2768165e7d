"""The arrays say what memhint.planner says, to the byte, whatever comes and goes."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memhint.objects.domain import DomainObservation
from memhint.objects.host import HostObservation
from memhint.objects.plan import PredictorName
from memhint.objects.policy import Origin, effective
from memhint.objects.units import GIB, MIB
from memhint.planner.earned_ratio import ALL, KEPT, Day, Earned, evidence
from memhint.planner.growth import table_of
from memhint.planner.plan import plan
from memhint.planner.ratio import ratio
from memhint.planner.settings import PlannerSettings
from memhint.planner.state import start
from memhint.sim.engine import ratio_steps
from memhint.sim.fleet import Fleet, HostShape
from memhint.sim.forecasts import forecast_of
from memhint.sim.table import Table
from memhint.sim.twin import BOUNDS, Hosts, Twin, Vms
from tests.unit import builders
from tests.unit.planner.test_growth import tallies

POOL = 64 * GIB
OTHER = 2 * GIB
STEPS = (10.0, 60.0, 300.0, 1800.0, 7000.0)
POLICY = {
    -1: effective({}),
    0: effective({Origin.OPERATOR: {"group": "zero"}}),
    1: effective({Origin.OPERATOR: {"group": "one"}}),
}
GUARANTEED = {
    group: effective({Origin.OPERATOR: {"class": "guaranteed", **words}})
    for group, words in ((-1, {}), (0, {"group": "zero"}), (1, {"group": "one"}))
}


@st.composite
def planner_settings(draw: st.DrawFn) -> PlannerSettings:
    return PlannerSettings(
        reserve=draw(st.integers(0, 8)) * GIB,
        allow_unbacked=draw(st.sampled_from([0, 16 * GIB, 256 * GIB])),
        overhead=draw(st.sampled_from([0, 128 * MIB])),
        new_vm_decay=draw(st.sampled_from([1.0, 600.0, 5000.0])),
        predictor=draw(st.sampled_from(PredictorName)),
        peak_half_life=draw(st.sampled_from([1.0, 600.0, 86400.0])),
        forecast_window=draw(st.sampled_from([600.0, 86400.0])),
        quantile=draw(st.sampled_from([0.5, 0.95, 1.0])),
        sigmas=draw(st.sampled_from([0.0, 3.0, 5.0])),
        other_window=draw(st.sampled_from([60.0, 3600.0])),
        fault_in_window=draw(st.sampled_from([60.0, 3600.0])),
        raise_percent_per_minute=draw(st.sampled_from([0.5, 5.0, 6000.0])),
        raise_hysteresis_percent=draw(st.sampled_from([0.0, 1.0])),
        max_ratio=draw(st.sampled_from([1.0, 1.5, 16.0])),
        earned_max_ratio=draw(st.sampled_from([0.0, 1.8, 9.0])),
        spare_for_group=draw(st.booleans()),
        growth_floor=draw(st.sampled_from([True, True, False])),
        storm_percent=draw(st.sampled_from([0, 10, 31, 100])),
    )


def observed(use: int, memory: int, vm: int, resident_left: int) -> tuple[DomainObservation, int]:
    rss = min(use, resident_left)
    process = builders.process(pid=vm + 1, rss=rss, swap=use - rss, ksm_zero=None, ksm_merging=None)
    domain = builders.domain_observation(
        uuid=str(vm), facts=builders.facts(memory=memory), process=process, guest=None, deep=None
    )
    return domain, rss


def host_of(available: int, swap: int, swapped: int = 0) -> HostObservation:
    """A host on which nobody but the VMs uses swap, as a simulation's are."""
    memory = builders.host_memory(total=POOL, available=available, swap_total=swap, swap_used=min(swap, swapped))
    return builders.host_observation(memory=memory, ksm=None, swap=None, pressure=None)


@st.composite
def earned(draw: st.DrawFn) -> Earned:
    """What a host has seen in the last two months: often enough to earn something."""
    worst = st.integers(0, ALL) if draw(st.booleans()) else st.integers(0, ALL // 2)
    days = draw(st.lists(st.tuples(st.integers(20, 24), worst), max_size=KEPT))
    first = -len(days) + draw(st.integers(-3, 1))
    return Earned(tuple(Day(first + place, *day) for place, day in enumerate(days)), draw(st.none() | st.just(-1)))


@settings(max_examples=80, deadline=None)
@given(
    planner=planner_settings(),
    seed=st.integers(0, 2**32 - 1),
    step=st.sampled_from(STEPS),
    swap=st.sampled_from([0, 32]),
    learnt=st.none() | tallies(),
    past=st.lists(earned(), max_size=3),
    loses=st.sampled_from([0.0, 0.0, 0.05, 0.3]),
    share=st.sampled_from([0.0, 0.3, 1.0]),
)
def test_the_twin_promises_what_the_planner_promises(
    planner: PlannerSettings,
    seed: int,
    step: float,
    swap: int,
    learnt: list[dict] | None,
    past: list[Earned],
    loses: float,
    share: float,
) -> None:
    rng = np.random.default_rng(seed)
    hosts, cycles = int(rng.integers(1, 4)), int(rng.integers(2, 70))
    growth = None if learnt is None else table_of(1, learnt * 4)  # hosts enough for all to count
    table, twin, forecast = Table(), Twin(hosts, planner, growth, past), forecast_of(planner)
    states = [replace(start(planner), earned=past[host % len(past)] if past else Earned()) for host in range(hosts)]
    running: list[int] = []  # names of VMs, in the order of the table
    fleet = _requests(int(rng.integers(1, 40)), rng)
    groups = rng.integers(-1, 2, fleet.vms)
    guaranteed = rng.random(fleet.vms) < share
    asked = 0
    now = float(rng.integers(0, 10**5))
    for _ in range(cycles):
        now += step
        gone = np.flatnonzero(rng.random(len(table)) < 0.1)
        source, target = table.remove(gone)
        for there, here in zip(source, target, strict=True):
            running[here] = running[there]
        del running[len(table) :]
        forecast.move(source, target, len(table))
        # mostly calm, at times everything at once
        level = rng.random(len(table)) * (1.0 if rng.random() < 0.8 else 0.2)
        use = np.floor(table["memory"] * (1.0 if rng.random() < 0.05 else level))
        total = np.bincount(table["host"], weights=use, minlength=hosts)
        resident = np.minimum(total + 0.0, POOL - OTHER)
        available = POOL - OTHER - resident
        losing = rng.random(hosts) < loses
        lost = losing[table["host"]]
        twin.forget(losing)
        forecast.forget(lost)
        states = [start(planner) if losing[host] else state for host, state in enumerate(states)]
        born = table["born"]
        born[np.isnan(born) | lost] = now
        group = groups[np.array(running, dtype=np.int64)]
        assigned = np.maximum(table["memory"] + planner.overhead, use)
        former = np.where(lost, np.nan, table["former"])
        held = guaranteed[np.array(running, dtype=np.int64)] if share else None
        vms = Vms(table["host"], assigned, use, former, born, group, held)
        promise = twin.plan(vms, Hosts(POOL, swap * GIB, available, resident), forecast, now)
        table["former"][:] = use
        for host in range(hosts):
            left, domains, policies = int(resident[host]), [], {}
            for place in np.flatnonzero(table["host"] == host):
                vm = running[place]
                domain, rss = observed(int(use[place]), int(table["memory"][place]), vm, left)
                left -= rss
                domains.append(domain)
                policies[domain.uuid] = (GUARANTEED if guaranteed[vm] else POLICY)[int(groups[vm])]
            swapped = sum(one.process.swap for one in domains)
            seen = host_of(int(available[host]), swap * GIB, swapped)
            found = plan(seen, domains, policies, states[host], now, planner, growth=growth)
            states[host] = found.state
            capacity = found.plan.capacity
            assert int(promise.want[host]) == capacity.want
            assert int(promise.spare[host]) == capacity.spare
            assert int(promise.headroom[host]) == capacity.headroom
            assert BOUNDS[promise.bound[host]] is capacity.bound
            assert float(promise.most[host]) == capacity.max_ratio
            assert bool(promise.entered[host]) is not found.plan.pressure.admitting
        if planner.earned_max_ratio > planner.max_ratio:
            for mine, its in zip(twin.earned.records(), states, strict=True):
                assert evidence(mine) == evidence(its.earned)
        coming = np.arange(asked, min(fleet.vms, asked + int(rng.integers(0, 5))))
        table.append(fleet, coming, rng.integers(0, hosts, coming.size))
        forecast.append(coming.size)
        running.extend(coming.tolist())
        asked += coming.size


def _requests(count: int, rng: np.random.Generator) -> Fleet:
    return Fleet(
        name="any",
        shape=HostShape(POOL, 0, OTHER),
        hosts=1,
        step=1.0,
        steps=1,
        arrival=np.zeros(count, dtype=np.int64),
        departure=np.ones(count, dtype=np.int64),
        memory=np.floor(rng.uniform(64 * MIB, 24 * GIB, count)),
        offset=np.zeros(count),
        scale=np.zeros(count),
        row=np.zeros(count, dtype=np.int64),
        levels=np.zeros((1, 1)),
    )


@given(
    allocated=st.integers(0, 2**40),
    headroom=st.integers(0, 2**40),
    base=st.integers(1, 2**40),
    most=st.floats(0.0, 16.0),
)
def test_the_ratio_is_the_planners(allocated: int, headroom: int, base: int, most: float) -> None:
    steps = ratio_steps(np.array([float(allocated + headroom)]), base, most)
    assert steps[0] / 100 == ratio(allocated, headroom, base, 0, most)


@pytest.mark.parametrize("predictor", PredictorName)
def test_an_empty_fleet_promises_what_the_planner_does(predictor: PredictorName) -> None:
    planner = replace(PlannerSettings(), predictor=predictor)
    empty = np.zeros(0)
    nobody = Vms(empty.astype(np.int64), empty, empty, empty, empty, empty.astype(np.int64))
    twin, forecast, state = Twin(1, planner), forecast_of(planner), start(planner)
    for now in (0.0, 300.0, 600.0):
        available = np.array([float(POOL - OTHER)])
        promise = twin.plan(nobody, Hosts(POOL, 0, available, np.zeros(1)), forecast, now)
        found = plan(host_of(POOL - OTHER, 0), [], {}, state, now, planner)
        state = found.state
        assert promise.headroom[0] == found.plan.capacity.headroom
