"""A host learns from its worst hour for how many VMs the storm reserve should have sufficed."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from memhint.objects.units import GIB
from memhint.planner.explain import spare_words
from memhint.planner.resume import long_ago
from memhint.planner.state import PlannerState, start
from memhint.planner.storm import of_sums, storm_reserve
from memhint.planner.storm_learn import HOUR, KEPT, Counted, Storms, next_storms
from memhint.store import codec
from tests.unit.planner.worlds import LATER, SETTINGS, Vm, World, capacity_of

POOL = 256 * GIB
COUNT = 40


def vms(storming: int, count: int = COUNT, assigned: int = 4 * GIB, demand: int = GIB) -> list[Counted]:
    """So many VMs alike, of which some came back to their full size."""
    return [
        Counted(str(number), assigned, demand, assigned if number < storming else demand) for number in range(count)
    ]


def after(*looks: tuple[float, list[Counted]]) -> Storms:
    storms = Storms()
    for now, seen in looks:
        storms = next_storms(storms, seen, POOL, now)
    return storms


def test_half_of_all_vms_within_an_hour_are_a_storm_for_which_the_next_reserve_suffices() -> None:
    storms = after((0.0, vms(0)), (600.0, vms(10)), (1200.0, vms(20)), (1800.0, vms(0)))
    # The least for which it would have: half of them, less the deviation that is kept anyway.
    distances = [3 * GIB] * COUNT
    assert 30 < storms.percent <= 50
    assert storm_reserve(distances, storms.percent) >= 20 * 3 * GIB > storm_reserve(distances, storms.percent - 1)


def test_a_storm_that_begins_in_one_hour_and_ends_in_the_next_is_one() -> None:
    looks = [(at * 600.0, vms(min(20, max(0, at - 3) * 5))) for at in range(9)]
    assert after(*looks).percent == after((0.0, vms(0)), (600.0, vms(20))).percent
    # What comes back in the course of hours is no storm.
    slow = [(at * HOUR, [replace(one, demand=one.use) for one in vms(at)]) for at in range(20)]
    assert after(*slow).percent == 0


def test_what_the_forecast_knew_is_no_storm() -> None:
    knew = [replace(one, demand=4 * GIB) for one in vms(0)]
    assert after((0.0, knew), (600.0, [replace(one, use=4 * GIB) for one in knew])).percent == 0


def test_the_largest_vm_and_a_trifle_are_none() -> None:
    assert after((0.0, vms(0)), (600.0, vms(1))).percent == 0
    small = GIB // 100
    assert after((0.0, vms(0, COUNT, 2 * small, small)), (9.0, vms(COUNT, COUNT, 2 * small, small))).percent == 0
    new = [Counted(f"new-{number}", 4 * GIB, 4 * GIB, 4 * GIB) for number in range(30)]
    assert after((0.0, vms(0)), (600.0, vms(0) + new)).percent == 0  # who was not there came back to nothing


def test_a_storm_is_remembered_for_four_weeks() -> None:
    storms = after((0.0, vms(0)), (600.0, vms(20)), (KEPT * 0.98, vms(0)))
    assert storms.percent > 30
    assert next_storms(storms, vms(0), POOL, KEPT + 12 * HOUR).percent == 0


@given(
    st.lists(st.tuples(st.integers(1, 64), st.integers(0, 64), st.integers(0, 64)), min_size=1, max_size=40),
    st.floats(1.0, HOUR),
)
def test_the_reserve_would_have_sufficed(parts: list[tuple[int, int, int]], elapsed: float) -> None:
    before = [
        Counted(str(number), size * GIB, size * GIB * part // 64, size * GIB * part // 64)
        for number, (size, part, _) in enumerate(parts)
    ]
    now = [replace(one, use=one.assigned * most // 64) for one, (_, _, most) in zip(before, parts, strict=True)]
    storms = after((0.0, before), (elapsed, now))
    distances = [one.assigned - one.demand for one in before]
    claimed = sum(max(0, late.use - was.use) for was, late in zip(before, now, strict=True))
    assert 0 <= storms.percent <= 100
    kept = max(of_sums(sum(distances), sum(one * one for one in distances), storms.percent), max(distances))
    assert kept >= claimed or claimed < POOL // 100


def test_no_more_than_two_hours_are_under_way_and_what_was_learnt_outlives_an_agent() -> None:
    storms = after(*((at * 10.0, vms(0)) for at in range(2000)))
    assert len(storms.hours) == 2
    state = replace(start(SETTINGS), storms=storms)
    assert codec.parse_as(codec.dump(state), PlannerState).storms == storms
    assert long_ago(state).storms == Storms(storms.worst)


def test_a_host_that_had_a_storm_keeps_more_and_says_for_how_many_vms() -> None:
    learning = replace(SETTINGS, storm_learn=True, peak_half_life=1.0)
    world = World(tuple(Vm(4 * GIB, GIB, GIB) for _ in range(20)), free=100 * GIB)
    calm = world.look(world.first_look(learning), LATER, learning).state
    calm = world.look(calm, 2 * LATER, learning).state
    came = replace(world, vms=(*(replace(vm, rss=4 * GIB) for vm in world.vms[:10]), *world.vms[10:]), free=70 * GIB)
    stormed = came.look(calm, 2 * LATER + 600, learning)
    assert stormed.plan.capacity.storm is not None
    assert 25 < stormed.plan.capacity.storm <= 50
    later = world.look(stormed.state, 10 * LATER, learning).plan
    assert later.capacity.storm == stormed.plan.capacity.storm
    usual = capacity_of(world, SETTINGS)
    assert usual.storm == 10
    assert later.capacity.spare > usual.spare
    said = spare_words(later.capacity, later.demands, learning)
    assert said == f"{later.capacity.storm} % of the VMs coming back to their full size at once"
    # It never keeps less than is configured, and nothing of it counts where nobody wants it.
    more = world.look(stormed.state, 10 * LATER, replace(learning, storm_percent=60)).plan.capacity
    assert more.storm == 60
    assert world.look(stormed.state, 10 * LATER, replace(learning, storm_learn=False)).plan.capacity.storm == 10
