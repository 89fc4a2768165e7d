"""Calls that hang are left behind, and few of them may be."""

import threading

import pytest

from memhint.virt.bounded import Bounded
from memhint.virt.errors import CallTimeout


def test_the_value_and_the_error_come_through() -> None:
    bounded = Bounded()
    assert bounded.call("sum", lambda: 1 + 1, 5) == 2
    with pytest.raises(ZeroDivisionError):
        bounded.call("division", lambda: 1 // 0, 5)


def test_a_call_that_hangs_is_left_behind_and_counted_until_it_returns() -> None:
    bounded, gate = Bounded(limit=2), threading.Event()
    for _ in range(2):
        with pytest.raises(CallTimeout, match="did not return"):
            bounded.call("stuck", gate.wait, 0.01)
    assert bounded.hanging == 2
    started = threading.Event()
    with pytest.raises(CallTimeout, match="hang already"):
        bounded.call("third", started.set, 5)
    assert not started.is_set()
    gate.set()
    while bounded.hanging:  # both threads end now
        pass
    assert bounded.call("again", lambda: "fine", 5) == "fine"
