"""An explanation adds up: to the headroom that is promised, and to the demand that counts."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memhint.objects.plan import Bound, PredictorName
from memhint.objects.units import GIB, MIB
from memhint.planner.capacity import spare
from memhint.planner.explain import capacity_steps, cost_of, demand_steps, spare_words, terms, tightest_term
from memhint.planner.growth import column_of, row_of, table_of
from memhint.planner.plan import Sight
from memhint.planner.settings import PlannerSettings
from tests.unit.planner.worlds import LATER, SETTINGS, Vm, World, capacity_of, worlds

SLOW = replace(SETTINGS, raise_percent_per_minute=0.5, raise_hysteresis_percent=2.0)


def planned(world: World, settings: PlannerSettings = SETTINGS, sight: Sight = Sight.CLEAR):
    return world.look(world.first_look(settings), LATER, settings, sight).plan


@given(
    world=worlds(),
    settings=st.sampled_from([SETTINGS, SLOW, replace(SETTINGS, max_ratio=0.3)]),
    sight=st.sampled_from(Sight),
    psi=st.sampled_from([0.0, 50.0]),
)
def test_the_steps_add_up_to_what_is_promised(world: World, settings: PlannerSettings, sight: Sight, psi) -> None:
    found = planned(replace(world, psi=psi), settings, sight).capacity
    steps = capacity_steps(found)
    assert sum(step.amount for step in steps) == steps[-1].left == found.headroom
    assert terms(found)[tightest_term(found)] == min(terms(found).values())


@given(world=worlds(min_vms=1), predictor=st.sampled_from(PredictorName), minimum=st.integers(0, 9000))
def test_the_steps_of_a_vm_add_up_to_its_demand(world: World, predictor: PredictorName, minimum: int) -> None:
    world = replace(world, vms=(replace(world.vms[0], policy={"min_mb": str(minimum)}), *world.vms[1:]))
    found = planned(world, replace(SETTINGS, predictor=predictor))
    for number, (demand, vm) in enumerate(zip(found.demands, world.vms, strict=True)):
        steps = demand_steps(demand, vm.seen(number, vm.rss, vm.swap))
        assert sum(step.amount for step in steps) == demand.demand


def test_what_the_fleet_came_to_is_a_step_with_its_reason() -> None:
    vm = Vm(8 * GIB, 1 * GIB, 1 * GIB)
    like = (row_of(LATER), column_of(1 * GIB, vm.size + SETTINGS.overhead))
    table = table_of(1, [{like: (5, 5 * 50)}] * 4)
    world = World((vm,), free=60 * GIB)
    (demand,) = world.look(world.first_look(SETTINGS), LATER, SETTINGS, growth=table).plan.demands
    steps = demand_steps(demand, vm.seen(0, vm.rss, vm.swap))
    (grown,) = (one for one in steps if one.term == "growth")
    assert grown.why == "VMs less than 1 h old that used 13 % came to 50 % within a week, n = 20"
    assert (grown.left, sum(one.amount for one in steps)) == (demand.demand, (vm.size + SETTINGS.overhead) // 2)


@pytest.mark.parametrize(
    ("vm", "term"),
    [
        (Vm(8 * GIB, 1 * GIB, 1 * GIB, facts={"vfio": True}), "up to all of it"),
        (Vm(8 * GIB, 1 * GIB, 1 * GIB, new=True), "new"),
        (Vm(8 * GIB, 1 * GIB, 1 * GIB, policy={"min_mb": "4096"}), "minimum"),
        (Vm(8 * GIB, 6 * GIB, 1 * GIB), "forecast"),
        (Vm(8 * GIB, 0, 64 * MIB, facts={"hugepages": True, "hugetlb": 8 * GIB}), "outside"),
    ],
)
def test_the_rule_that_made_it_so_is_named(vm: Vm, term: str) -> None:
    (demand,) = planned(World((vm,), free=60 * GIB)).demands
    steps = demand_steps(demand, vm.seen(0, vm.rss, vm.swap))
    assert [step.amount != 0 for step in steps if step.term == term] == [True]


def test_whom_the_spare_is_for() -> None:
    small, large = Vm(4 * GIB, 1 * GIB, 1 * GIB), Vm(9 * GIB, 1 * GIB, 1 * GIB)
    plan = planned(World((small, large), free=60 * GIB))
    assert spare_words(plan.capacity, plan.demands, SETTINGS).startswith("{vm-1}")
    grouped = World(tuple(replace(small, policy={"group": "web"}) for _ in range(4)), free=60 * GIB)
    plan = planned(grouped)
    assert "group" in spare_words(plan.capacity, plan.demands, SETTINGS)
    many = planned(World((small,) * 8, free=56 * GIB))
    told = replace(SETTINGS, storm_percent=31)
    kept = replace(many.capacity, spare=spare(many.demands, 0.0, told))
    assert spare_words(kept, many.demands, told) == "31 % of the VMs coming back to their full size at once"
    storm = replace(plan.capacity, spare=plan.capacity.spare + 1)
    assert "at their worst" in spare_words(storm, plan.demands, SETTINGS)
    empty = planned(World((), free=60 * GIB))
    assert "no VM" in spare_words(empty.capacity, empty.demands, SETTINGS)


def test_what_a_vm_costs_is_what_the_headroom_lacks_for_it() -> None:
    small, large = Vm(4 * GIB, 1 * GIB, 1 * GIB), Vm(9 * GIB, 1 * GIB, 1 * GIB)
    both, alone = World((small, large), free=60 * GIB), World((small,), free=61 * GIB)
    plan = planned(both)
    cost = cost_of(plan.demands[1], plan.capacity, plan.demands, SETTINGS)
    assert cost.counted + cost.spare == capacity_of(alone).headroom - plan.capacity.headroom
    assert cost.given == 8 * GIB + SETTINGS.overhead
    tight = replace(plan.capacity, bound=Bound.BACK)
    assert cost_of(plan.demands[1], tight, plan.demands, SETTINGS).counted == 9 * GIB + SETTINGS.overhead
