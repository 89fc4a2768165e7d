"""The growth table of a simulated fleet is what its controllers would have learnt, and a floor under every forecast."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memhint.objects.units import GIB
from memhint.planner.growth import (
    DAY,
    HOUR,
    LEAST,
    GrowthTable,
    column_of,
    floor,
    outlook,
    row_of,
    table_of,
    tally_of,
    told_by,
)
from memhint.planner.settings import PlannerSettings
from memhint.sim.engine import Strategy, simulate
from memhint.sim.fleet import Fleet
from memhint.sim.generate import Workload, generate
from memhint.sim.growth import learn
from memhint.sim.policy import PolicyError, parse
from memhint.sim.twin import Floors, Vms
from tests.unit.planner.test_growth import tallies

PLANNER = PlannerSettings()


def fleet(seed: int, kind: Workload = Workload.DIURNAL, days: float = 9) -> Fleet:
    return generate(kind, hosts=4, days=days, step=3600.0, seed=seed, offered=1.0)


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([Workload.DIURNAL, Workload.HOT, Workload.BURSTY]), st.booleans())
def test_a_fleet_teaches_what_its_vms_tell_that_are_there_at_the_end(seed: int, kind: Workload, sticky: bool) -> None:
    made = replace(fleet(seed, kind), sticky=sticky)
    hosts: list[list] = [[], [], [], []]
    left = [vm for vm in range(made.vms) if made.departure[vm] >= made.steps]
    for turn, vm in enumerate(left):
        most = int(made.memory[vm]) + PLANNER.overhead
        course = [(step * HOUR, int(use), max(most, int(use))) for step, use in enumerate(made.course(vm))]
        hosts[turn % 4].append(told_by(course))
    table, told = learn(made, PLANNER.overhead), [tally_of(vms) for vms in hosts]
    assert table == table_of(1, told)
    # Of four hosts none has more than a quarter: a cell speaks for four times what the one with the fewest VMs has.
    cells = set().union(*told)
    enough = any(4 * min(one.get(cell, (0, 0))[0] for one in told) >= LEAST for cell in cells)
    assert says_something(table) is enough
    assert cells


def says_something(table: GrowthTable) -> bool:
    return any(one.percent for row in table.cells for one in row)


@pytest.mark.parametrize("kind", [Workload.DIURNAL, Workload.HOT, Workload.BURSTY])
def test_a_fleet_of_a_hundred_vms_that_stay_teaches_something(kind: Workload) -> None:
    assert says_something(learn(fleet(3, kind), PLANNER.overhead))


def test_of_shorter_steps_the_worst_of_each_hour_counts_and_of_a_long_time_the_last_month() -> None:
    made = fleet(3, days=45)
    finer = replace(
        made,
        step=1800.0,
        steps=made.steps * 2,
        arrival=made.arrival * 2 + 1,
        departure=made.departure * 2,
        levels=np.repeat(made.levels, 2, axis=0),
    )
    assert learn(finer, PLANNER.overhead) == learn(made, PLANNER.overhead)
    month = learn(made, PLANNER.overhead).cells[row_of(14 * DAY)]
    assert max(one.count for one in month) > 0


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32 - 1), tallies())
def test_the_arrays_count_with_what_the_planner_does(seed: int, hosts: list[dict]) -> None:
    rng = np.random.default_rng(seed)
    hosts += [{(0, column_of(20, 100)): (9, 9 * 40)}] * 4
    table, count = table_of(1, hosts), 40
    assigned = np.floor(rng.uniform(GIB, 200 * GIB, count))
    use = np.floor(assigned * rng.random(count) ** 3)
    born = -rng.exponential(5 * DAY, count)
    vms = Vms(np.zeros(count, dtype=np.int64), assigned, use, use, born, np.full(count, -1))
    one_by_one = [
        floor(outlook(table, -float(born[vm]), int(use[vm]), int(assigned[vm])), int(assigned[vm]))
        for vm in range(count)
    ]
    assert any(one_by_one)
    assert Floors(table).of(vms, 0.0).tolist() == one_by_one


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
    # Where the floor is off nothing is different from before.
    off = replace(growth, settings=replace(growth.settings, growth_floor=False))
    assert simulate(made, off, planner, strategy=Strategy.FIRST_FIT).violation_share == surprised.violation_share


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
    assert len(calls) == 1
    assert first.growth is second.growth
    assert (first.settings, second.settings.peak_half_life) == (PLANNER, 4 * HOUR)
