"""Calls that hang are left behind, and few of them may be."""

import gc
import threading
import time
import weakref
from contextlib import suppress

import pytest

from lab.waiting import wait_for
from memhint.virt.bounded import Bounded
from memhint.virt.errors import CallTimeout, LibvirtCallFailed

WAIT_S = 60.0  # for threads; never reached unless the test fails


def test_the_value_and_the_error_come_through() -> None:
    bounded = Bounded()
    assert bounded.call("sum", lambda: 1 + 1, WAIT_S) == 2
    with pytest.raises(ZeroDivisionError):
        bounded.call("division", lambda: 1 // 0, WAIT_S)


def test_a_call_that_hangs_is_left_behind_and_counted_until_it_returns() -> None:
    bounded, gate = Bounded(limit=2), threading.Event()
    for _ in range(2):
        with pytest.raises(CallTimeout, match="did not return"):
            bounded.call("stuck", gate.wait, 0.01)
    assert bounded.hanging == 2
    started = threading.Event()
    with pytest.raises(CallTimeout, match="hang already"):
        bounded.call("third", started.set, WAIT_S)
    assert not started.is_set()
    gate.set()
    wait_for(lambda: not bounded.hanging, WAIT_S, "both threads to end")
    assert bounded.call("again", lambda: "fine", WAIT_S) == "fine"


def test_without_a_thread_to_be_had_it_is_a_call_that_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", none)
    bounded = Bounded()
    with pytest.raises(LibvirtCallFailed, match="bulk statistics was not asked for: can't start new thread"):
        bounded.call("bulk statistics", lambda: 1, WAIT_S)
    assert bounded.hanging == 0


def test_an_error_keeps_nothing_of_the_call_alive() -> None:
    class Held:
        pass

    def fails() -> None:
        held = Held()
        left.append(weakref.ref(held))
        raise LookupError("no")

    left: list[weakref.ref[Held]] = []
    gc.disable()
    try:
        with suppress(LookupError):
            Bounded().call("x", fails, 30.0)
        end = time.monotonic() + 30
        while left[0]() is not None:  # its thread may not have ended yet
            assert time.monotonic() < end
            time.sleep(0.01)
    finally:
        gc.enable()
