"""The promise goes down at once and up slowly, and a ratio never stands for more than there is."""

from hypothesis import given
from hypothesis import strategies as st

from memhint.objects.units import GIB
from memhint.planner.promise import hysteresis, next_headroom
from memhint.planner.ratio import QUANTUM, ratio
from memhint.planner.settings import PlannerSettings

SETTINGS = PlannerSettings(raise_percent_per_minute=5.0, raise_hysteresis_percent=1.0)
POOL = 100 * GIB
BAND = hysteresis(POOL, SETTINGS)
amounts = st.integers(0, POOL)


@given(before=amounts, found=amounts, elapsed=st.floats(-10, 1e5))
def test_down_at_once_and_up_by_no_more_than_the_rate(before: int, found: int, elapsed: float) -> None:
    promised = next_headroom(before, found, POOL, elapsed, SETTINGS)
    if found <= before:
        assert promised == found
    else:
        assert before <= promised <= min(found, before + POOL * 0.05 * max(0.0, elapsed) / 60)


@given(middle=st.integers(BAND, POOL), noise=st.lists(st.floats(0, 1, exclude_max=True), min_size=1, max_size=100))
def test_noise_of_the_width_of_the_hysteresis_never_raises_what_it_lowered(middle: int, noise: list[float]) -> None:
    promised, seen = middle + BAND, []
    for one in noise:
        promised = next_headroom(promised, middle + int(one * BAND), POOL, 3600.0, SETTINGS)
        seen.append(promised)
    assert seen == sorted(seen, reverse=True)


def test_a_rise_beyond_the_hysteresis_is_followed_to_its_end() -> None:
    assert next_headroom(0, BAND - 1, POOL, 3600.0, SETTINGS) == 0
    assert next_headroom(0, BAND, POOL, 3600.0, SETTINGS) == BAND
    assert next_headroom(0, 50 * GIB, POOL, 60.0, SETTINGS) == 5 * GIB


mb = st.integers(0, 1 << 24)


@given(allocated=mb, headroom=st.integers(-(1 << 24), 1 << 24), total=mb, reserved=mb, most=st.floats(0, 100))
def test_a_ratio_is_a_whole_number_of_quanta_and_stands_for_no_more_than_there_is(
    allocated: int, headroom: int, total: int, reserved: int, most: float
) -> None:
    found = ratio(allocated, headroom, total, reserved, most)
    assert 0.0 <= found <= most + 1e-9
    assert abs(found / QUANTUM - round(found / QUANTUM)) < 1e-6
    # Placement takes whole units of (total - reserved) * ratio
    assert int(max(0, total - reserved) * found + 1e-6) <= allocated + max(0, headroom)


@given(allocated=mb, headroom=mb, more=mb, total=mb, reserved=mb)
def test_more_headroom_never_lowers_the_ratio(allocated, headroom, more, total, reserved) -> None:
    assert ratio(allocated, headroom, total, reserved, 50.0) <= ratio(allocated, headroom + more, total, reserved, 50.0)


def test_named_ratios() -> None:
    assert ratio(0, 0, 65536, 4096, 1.5) == 0.0  # no least ratio: nothing may be admitted
    assert ratio(40000, 21440, 65536, 4096, 1.5) == 1.0
    assert ratio(40000, 30000, 65536, 4096, 1.5) == 1.13  # 1.139 rounded down
    assert ratio(90000, 30000, 65536, 4096, 1.5) == 1.5
    assert ratio(90000, 30000, 4096, 4096, 1.5) == 0.0
    assert ratio(30000, -5000, 65536, 4096, 1.5) == 0.48
