"""The growth table of a simulated fleet is the planner's, and so is the forecast by it."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memhint.objects.units import GIB
from memhint.planner.growth import AGES, cells_of, column_of, demand, deviation, outlook, row_of, table_of
from memhint.planner.settings import PlannerSettings
from memhint.sim.engine import Strategy, simulate
from memhint.sim.fleet import Fleet
from memhint.sim.generate import Workload, generate
from memhint.sim.growth import Growth, learn
from memhint.sim.policy import PolicyError, parse
from memhint.sim.twin import Vms

PLANNER = PlannerSettings()


def fleet(seed: int, kind: Workload = Workload.DIURNAL, days: float = 9) -> Fleet:
    return generate(kind, hosts=2, days=days, step=3600.0, seed=seed, offered=1.0)


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([Workload.DIURNAL, Workload.HOT, Workload.BURSTY]), st.booleans())
def test_a_fleet_teaches_what_its_lives_tell(seed: int, kind: Workload, sticky: bool) -> None:
    made = replace(fleet(seed, kind), sticky=sticky)
    cells = []
    for vm in range(made.vms):
        course = made.course(vm)
        if course.size:
            lived = [(step * made.step, int(use)) for step, use in enumerate(course)]
            assigned = int(max(made.memory[vm] + PLANNER.overhead, course.max()))
            cells += cells_of(lived, assigned, gone=bool(made.departure[vm] < made.steps))
    assert cells
    assert learn(made, PLANNER.overhead) == table_of(1, cells)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_the_arrays_count_with_what_the_planner_does(seed: int) -> None:
    rng = np.random.default_rng(seed)
    cells = [tuple(map(int, (rng.integers(len(AGES)), *np.sort(rng.integers(0, 24, 2))))) for _ in range(3000)]
    table = table_of(1, cells)
    count, hosts = 40, 3
    assigned = np.floor(rng.uniform(GIB, 200 * GIB, count))
    born = -rng.exponential(5 * 86400.0, count)
    host = rng.integers(0, hosts, count)
    forecast = Growth(table, 3.0)
    forecast.append(count)
    highest = np.zeros(count)
    for now in (0.0, 7200.0):
        use = np.floor(assigned * rng.random(count) ** 3)
        highest = np.maximum(highest, use)
        vms = Vms(host, assigned, use, np.full(count, np.nan), born, np.full(count, -1))
        found, kept = forecast.forecast(vms, now, hosts), forecast.deviation(vms, hosts)
        looks = [
            outlook(table, row_of(now - born[vm]), column_of(int(highest[vm]), int(assigned[vm])))
            for vm in range(count)
        ]
        sure = [
            max(demand(one, int(most)), int(now_used)) for one, most, now_used in zip(looks, assigned, use, strict=True)
        ]
        assert found.tolist() == sure
        for place in range(hosts):
            there = np.flatnonzero(host == place)
            assert kept[place] == deviation([looks[vm] for vm in there], [int(assigned[vm]) for vm in there])


def test_vms_that_turn_hot_are_known_from_those_that_did_before() -> None:
    made, before = (
        generate(Workload.HOT, hosts=4, days=days, step=3600.0, seed=seed, offered=1.2)
        for days, seed in ((9, 2), (16, 3))
    )
    planner = replace(PLANNER, allow_unbacked=1024 * GIB)
    peak, growth = parse(["peak", "growth"], planner, lambda: learn(before, planner.overhead))
    surprised, warned = (simulate(made, one, planner, strategy=Strategy.FIRST_FIT) for one in (peak, growth))
    assert surprised.violation_share > 0.1
    assert (warned.violation_share, warned.oom_events) == (0.0, 0)
    assert warned.ratio_mean > 1.0


def test_without_a_history_there_is_no_growth_and_nothing_is_learnt_that_nobody_asks_for() -> None:
    with pytest.raises(PolicyError, match="needs a history to learn from: say --learn"):
        parse(["growth"], PLANNER)
    calls: list[int] = []

    def learnt():
        calls.append(1)
        return table_of(7, [])

    assert [one.name for one in parse(["nominal", "peak"], PLANNER, learnt)] == ["nominal", "peak"]
    assert not calls
    first, second = parse(["growth", "growth:4"], PLANNER, learnt)
    assert (first.sigmas, second.sigmas, len(calls)) == (3.0, 4.0, 1)
    assert first.growth is second.growth
    assert first.settings.new_vm_decay == 0.0
