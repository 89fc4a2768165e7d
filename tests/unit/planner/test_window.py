"""A window forgets by its slots, and one of another length holds at once, without forgetting early."""

from hypothesis import given
from hypothesis import strategies as st

from memhint.planner.settings import PlannerSettings
from memhint.planner.window import BUCKETS, Window
from tests.unit.planner.worlds import LATER, SETTINGS, World

SAMPLES = st.lists(st.tuples(st.floats(0.0, 500.0), st.floats(0.0, 1e9)), min_size=1, max_size=60)
LENGTHS = st.sampled_from([60.0, 3600.0, 5000.0, 86400.0])


@given(SAMPLES, LENGTHS, LENGTHS, st.floats(0.0, 1e5))
def test_a_window_of_another_length_forgets_nothing_that_lies_within_it(
    steps: list[tuple[float, float]], length: float, other: float, later: float
) -> None:
    now, window, seen = 1e6, Window(length), []
    for elapsed, value in steps:
        now += elapsed
        window = window.add(now, value)
        seen.append((now, value))
    moved = window.lasting(other, now)
    assert len(moved.slots) <= BUCKETS
    assert moved.peak() == window.peak()
    assert window.lasting(length, now) is window
    # From now on it is as one that always had this length, as far as the shorter of the two knew; a slot later at most.
    both = min(length * (1 - 1 / BUCKETS), max(0.0, other * (1 - 1 / BUCKETS) - later))
    least = max((value for at, value in seen if now - at < both), default=0.0)
    found = moved.add(now + later, 0.0)
    assert found.peak() >= least
    oldest = now + later - other - length / BUCKETS - other / BUCKETS
    most = max((value for at, value in seen if at > oldest), default=0.0)
    assert found.peak() <= most


def test_a_changed_window_holds_in_the_next_cycle() -> None:
    world = World((), free=60)
    state = world.first_look(SETTINGS)
    longer = PlannerSettings(other_window=86400.0, fault_in_window=7200.0)
    after = world.look(state, LATER, longer).state
    assert (after.other.length, after.fault_in.length) == (86400.0, 7200.0)
    assert after.other.peak() >= state.other.peak() > 0
