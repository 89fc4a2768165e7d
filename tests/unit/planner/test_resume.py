"""An agent that was away knows what VMs did, and has promised nothing."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memhint.objects.plan import PredictorName
from memhint.objects.units import GIB
from memhint.planner.earned_ratio import DAY, HOUR, KEPT, NEEDED, Earned, UsageSample, evidence, next_earned
from memhint.planner.plan import plan
from memhint.planner.resume import after_boot, long_ago
from memhint.planner.settings import PlannerSettings
from memhint.planner.state import PlannerState, start
from memhint.planner.window import Window
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


def test_what_ksm_saved_is_not_forgotten_while_the_agent_is_away_and_no_boot_has_it() -> None:
    state = replace(cycle(7 * GIB, 0.0, start(SETTINGS)).state, ksm_saving=3 * GIB)
    assert long_ago(state).ksm_saving == 3 * GIB
    assert after_boot(state, 30.0, SETTINGS, 120.0).ksm_saving == 0


def test_what_vms_may_have_of_swap_is_not_forgotten_while_the_agent_is_away() -> None:
    state = replace(cycle(7 * GIB, 0.0, start(SETTINGS)).state, swap_most=0)
    assert long_ago(state).swap_most == 0
    assert after_boot(state, 30.0, SETTINGS, 120.0).swap_most == 0


def test_a_vm_that_came_meanwhile_is_new_and_one_that_went_is_forgotten() -> None:
    state = cycle(7 * GIB, 0.0, start(SETTINGS)).state
    other = builders.domain_observation(uuid="other", process=builders.process(pid=77), guest=None, deep=None)
    found = plan(HOST_SEEN, [other], policies([other]), long_ago(state), 9000.0, SETTINGS)
    (demand,) = found.plan.demands
    assert demand.demand == demand.assigned
    assert set(found.state.past) == {"other"}


def rebooted(rss: int):
    """The same VM, of a QEMU that the host's new boot has started."""
    return replace(vm(rss), process=builders.process(pid=9, rss=rss, swap=0, ksm_zero=0))


@pytest.mark.parametrize("predictor", PredictorName)
def test_a_boot_of_the_host_does_not_make_a_vm_idle(predictor: PredictorName) -> None:
    chosen = replace(SETTINGS, predictor=predictor)
    state = start(chosen)
    for now in (0.0, 50 * DAY, 50 * DAY + 1000.0):
        one = vm(7 * GIB)
        state = plan(HOST_SEEN, [one], policies([one]), state, now, chosen).state
    state = after_boot(state, 30.0, chosen, 120.0)
    found = []
    for now in (30.0, 700.0):
        one = rebooted(1 * GIB)
        planned = plan(HOST_SEEN, [one], policies([one]), state, now, chosen)
        state = planned.state
        found.append(planned.plan.demands[0])
    assert found[0].demand == found[0].assigned
    assert found[1].demand > 6.9 * GIB


@pytest.mark.parametrize("predictor", PredictorName)
def test_a_boot_of_the_host_does_not_make_a_vm_young(predictor: PredictorName) -> None:
    chosen = replace(SETTINGS, predictor=predictor)
    state = start(chosen)
    for now in (0.0, 5 * DAY):
        one = vm(GIB)
        state = plan(HOST_SEEN, [one], policies([one]), state, now, chosen).state
    for now in (30.0, 60.0):  # and another boot, before it was seen again
        state = after_boot(replace(state, at=state.at or 30.0), now, chosen, 120.0)
    one = rebooted(GIB)
    state = plan(HOST_SEEN, [one], policies([one]), state, 90.0, chosen).state
    (past,) = state.past.values()
    assert 90.0 - past.since == pytest.approx(5 * DAY + 30.0)
    assert past.first_seen == 90.0


FULL = UsageSample(use=20, assigned=100, base=100)


def earned_over(hours: int, begin: float = 0.0, earned: Earned | None = None, look: UsageSample = FULL) -> Earned:
    found = earned or Earned()
    for hour in range(hours):
        found = next_earned(found, look, begin + hour * HOUR)
    return found


def after(earned: Earned, at: float, now: float, away: float | None) -> Earned:
    state = PlannerState(other=Window(DAY), fault_in=Window(DAY), at=at, earned=earned)
    return after_boot(state, now, SETTINGS, away).earned


def test_what_was_earned_goes_on_after_a_boot_that_ended_in_order() -> None:
    earned = after(earned_over(NEEDED - 1), NEEDED * HOUR, 60.0, 300.0)
    assert evidence(earned).hours == NEEDED - 1
    assert evidence(next_earned(earned, FULL, 90.0)).hours == NEEDED - 1  # no boot makes an hour more
    assert evidence(next_earned(earned, FULL, HOUR)).hours == NEEDED


def test_of_a_boot_that_broke_off_nothing_is_earned() -> None:
    assert after(earned_over(NEEDED), NEEDED * HOUR, 60.0, None) == Earned()
    assert after(earned_over(NEEDED), NEEDED * HOUR, 60.0, -1.0) == Earned()


def test_what_a_host_has_earned_ages_while_it_is_off() -> None:
    earned = after(earned_over(28 * 24), 28 * DAY, 60.0, 40 * DAY)
    assert evidence(next_earned(earned, FULL, 60.0)).hours == (KEPT - 40 - 1) * 24
    assert evidence(next_earned(after(earned_over(NEEDED), NEEDED * HOUR, 60.0, 1e12), FULL, 60.0)).hours == 0


def test_a_shortage_before_a_boot_is_not_forgotten_by_it() -> None:
    short = next_earned(earned_over(NEEDED), replace(FULL, failed=True), NEEDED * HOUR)
    assert evidence(after(short, NEEDED * HOUR, 60.0, 300.0)).share == evidence(short).share


@given(
    boots=st.lists(st.tuples(st.integers(0, 60), st.floats(0, 30 * DAY), st.floats(0, 9 * DAY)), max_size=6),
)
def test_no_boots_make_more_hours_than_there_were(boots: list[tuple[int, float, float]]) -> None:
    earned, seen, now = Earned(), 0, 0.0
    for hours, away, begin in boots:
        earned = earned_over(hours, now, earned)
        seen += hours
        earned, now = after(earned, now + hours * HOUR, begin, away), begin
        assert evidence(earned).hours <= seen
        assert all(one.hours <= 24 for one in earned.days)
        assert not earned.days or earned.days[-1].number < begin // DAY


@given(
    samples=st.lists(st.tuples(st.floats(0, 3 * DAY), st.floats(0, 2**50)), min_size=1, max_size=20),
    now=st.floats(0, 1e9),
)
def test_a_window_on_another_clock_has_the_same_peak(samples: list[tuple[float, float]], now: float) -> None:
    window = Window(DAY)
    for at, value in sorted(samples):
        window = window.add(at, value)
    then = max(at for at, _ in samples)
    moved = window.moved(then, now)
    assert moved.peak() == window.peak()
    assert moved.add(now, 0.0).peak() == window.add(then, 0.0).peak()
    assert moved.moved(now, then) == window
