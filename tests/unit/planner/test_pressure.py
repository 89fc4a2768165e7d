"""Pressure: entering is immediate, leaving takes calm for as long as the cooldown."""

from hypothesis import given
from hypothesis import strategies as st

from memhint.planner.pressure import PressureSample, PressureState, next_pressure, verdict
from memhint.planner.settings import PressureThresholds

LIMITS = PressureThresholds(
    psi_enter=10, psi_exit=2, swap_in_enter=4e6, swap_in_exit=1e6, available_enter=3, available_exit=6, cooldown=60
)
CALM = PressureSample(0.0, 0.0, 50.0)
BETWEEN = PressureSample(5.0, 0.0, 50.0)
STORM = PressureSample(30.0, 0.0, 50.0)


def after(*steps: tuple[float, PressureSample]) -> PressureState:
    state = PressureState()
    for now, sample in steps:
        state = next_pressure(state, sample, now, LIMITS)
    return state


def test_each_signal_enters_alone_and_says_which() -> None:
    for sample, word in (
        (PressureSample(10.0, None, 50.0), "pressure"),
        (PressureSample(None, 4e6, 50.0), "swap-in"),
        (PressureSample(None, None, 3.0), "available"),
    ):
        state = after((0.0, sample))
        assert state.entered
        assert word in state.why


def test_a_signal_that_the_host_does_not_have_is_neither_alarm_nor_obstacle() -> None:
    assert not after((0.0, PressureSample(None, None, 50.0))).entered
    assert not after((0.0, STORM), (1.0, PressureSample(None, None, 50.0)), (62.0, CALM)).entered


def test_leaving_takes_the_whole_cooldown() -> None:
    assert after((0.0, STORM), (10.0, CALM), (69.0, CALM)).entered
    assert not after((0.0, STORM), (10.0, CALM), (70.0, CALM)).entered


def test_a_relapse_begins_the_cooldown_anew() -> None:
    assert after((0.0, STORM), (10.0, CALM), (40.0, BETWEEN), (69.0, CALM), (71.0, CALM)).entered


def test_between_the_thresholds_nothing_changes() -> None:
    assert not after((0.0, BETWEEN)).entered
    assert after((0.0, STORM), (500.0, BETWEEN), (1000.0, BETWEEN)).entered


def test_the_verdict_tells_the_time_left() -> None:
    state = after((0.0, STORM), (10.0, CALM))
    assert not verdict(state, 30.0, LIMITS).admitting
    assert "40 s" in verdict(state, 30.0, LIMITS).detail
    assert verdict(PressureState(), 30.0, LIMITS).admitting


@given(st.lists(st.floats(2.0, 9.99), min_size=1, max_size=50))
def test_noise_of_the_width_of_the_hysteresis_never_oscillates(signal: list[float]) -> None:
    state, moves = PressureState(), 0
    for now, psi in enumerate([30.0, *signal]):
        following = next_pressure(state, PressureSample(psi, 0.0, 50.0), float(now), LIMITS)
        moves += following.entered != state.entered
        state = following
    assert moves == 1
