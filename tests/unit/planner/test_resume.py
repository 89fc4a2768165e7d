"""An agent that was away knows what VMs did, and has promised nothing."""

from memhint.objects.units import GIB
from memhint.planner.plan import plan
from memhint.planner.resume import long_ago
from memhint.planner.settings import PlannerSettings
from memhint.planner.state import PlannerState, start
from tests.unit import builders
from tests.unit.planner.test_plan import HOST_SEEN, policies

SETTINGS = PlannerSettings(new_vm_decay=600.0)


def vm(rss: int):
    process = builders.process(rss=rss, swap=0, ksm_zero=0)
    return builders.domain_observation(process=process, facts=builders.facts(memory=8 * GIB), guest=None, deep=None)


def cycle(rss: int, now: float, state: PlannerState):
    one = vm(rss)
    return plan(HOST_SEEN, [one], policies([one]), state, now, SETTINGS)


def test_what_a_vm_used_is_not_forgotten_while_the_agent_is_away_and_the_promise_is() -> None:
    state = start(SETTINGS)
    for now in (0.0, 1000.0):
        state = cycle(7 * GIB, now, state).state
    assert state.headroom > 0
    resumed = long_ago(state)
    found = cycle(1 * GIB, 4600.0, resumed)
    (demand,) = found.plan.demands
    assert demand.demand > 6.9 * GIB
    assert resumed.headroom == 0
    assert resumed.at is None
    # As the first plan of an agent: what nominal accounting leaves, or less.
    capacity = found.plan.capacity
    assert capacity.headroom <= max(0, capacity.nominal_headroom())


def test_a_vm_that_came_meanwhile_is_new_and_one_that_went_is_forgotten() -> None:
    state = cycle(7 * GIB, 0.0, start(SETTINGS)).state
    other = builders.domain_observation(uuid="other", process=builders.process(pid=77), guest=None, deep=None)
    found = plan(HOST_SEEN, [other], policies([other]), long_ago(state), 9000.0, SETTINGS)
    (demand,) = found.plan.demands
    assert demand.demand == demand.assigned
    assert set(found.state.past) == {"other"}
