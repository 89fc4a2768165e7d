"""A figure that has come to rest."""

from lab.demo.still import Still
from tests.clock import Clock


def test_a_figure_is_at_rest_once_it_has_stayed_for_long_enough() -> None:
    clock = Clock(100.0)
    seen = Still(5.0, 4, clock)
    assert not seen.at_rest(100)
    clock.now += 4.9
    assert not seen.at_rest(104)  # as far as it may differ
    clock.now += 0.1
    assert seen.at_rest(96)
    assert seen.changed == 100.0


def test_a_figure_that_moves_begins_anew() -> None:
    clock = Clock(100.0)
    seen = Still(5.0, 4, clock)
    seen.at_rest(100)
    clock.now += 6
    assert not seen.at_rest(95)
    assert seen.changed == 106.0
    clock.now += 5
    assert seen.at_rest(95)


def test_a_slow_drift_is_no_rest() -> None:
    clock = Clock(100.0)
    seen = Still(5.0, 4, clock)
    for step in range(20):
        clock.now += 1
        assert not seen.at_rest(1000 - 2 * step)
