"""The signals against one rung's limits."""

import pytest

from memhint.planner.pressure import PressureSample, alarms, calm
from memhint.planner.settings import PressureThresholds

LIMITS = PressureThresholds(
    psi_enter=10,
    psi_exit=2,
    swap_in_enter=4e6,
    swap_in_exit=1e6,
    available_enter=3,
    available_exit=6,
    refault_enter=8e6,
    refault_exit=2e6,
    cooldown=60,
)


@pytest.mark.parametrize(
    ("sample", "word"),
    [
        (PressureSample(10.0, None, 50.0), "pressure"),
        (PressureSample(None, 4e6, 50.0), "swap-in"),
        (PressureSample(None, None, 3.0), "available"),
        (PressureSample(None, None, 50.0, 8e6), "refaults"),
    ],
)
def test_each_signal_alarms_alone_and_says_which(sample: PressureSample, word: str) -> None:
    (text,) = alarms(sample, LIMITS)
    assert word in text
    assert not calm(sample, LIMITS)


def test_a_signal_that_the_host_does_not_have_is_neither_alarm_nor_obstacle() -> None:
    quiet = PressureSample(None, None, 50.0)
    assert alarms(quiet, LIMITS) == []
    assert calm(quiet, LIMITS)


def test_between_the_limits_is_neither() -> None:
    for sample in (
        PressureSample(5.0, 0.0, 50.0),
        PressureSample(0.0, 2e6, 50.0),
        PressureSample(0.0, 0.0, 4.0),
        PressureSample(0.0, 0.0, 50.0, 4e6),
    ):
        assert alarms(sample, LIMITS) == []
        assert not calm(sample, LIMITS)
