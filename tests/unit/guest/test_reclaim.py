"""Reclaiming in short calls: bounded in size, pressure and time, and never for long with the guest's agent in hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memhint.guest.errors import GuestAnswerMalformed, GuestCommandFailed, GuestError, GuestTimeout
from memhint.guest.reclaim import CALL_MS, Progress, reclaim
from memhint.objects.reclaim import Compaction, Stop
from memhint.objects.units import MIB
from tests.unit.guest.fake_reclaim import FakeGuest
from tests.unit.guest.strategies import anything


def run(guest: FakeGuest, asked: int, *, psi_limit: float = 10.0, seconds: float = 60.0, told=None) -> Progress:
    def tell(progress: Progress) -> bool:
        if told is not None:
            told.append(progress)
        return True

    return reclaim(guest.conversation, asked, psi_limit, seconds, tell=tell, clock=guest.clock, sleep=guest.sleep)


def test_all_that_was_asked_for_comes_in_short_calls() -> None:
    guest, told = FakeGuest(), []
    found = run(guest, 500 * MIB, told=told)
    assert (found.reclaimed, found.remaining, found.stop) == (500 * MIB, 0, Stop.DONE)
    assert found.compaction is Compaction.DONE
    assert [call["bytes"] for call in guest.calls()] == [500 * MIB, 300 * MIB, 100 * MIB]
    assert all(call["time-limit-ms"] <= CALL_MS for call in guest.calls())
    assert [progress.reclaimed for progress in told] == [0, 200 * MIB, 400 * MIB]


def test_a_guest_that_has_no_more_says_so() -> None:
    found = run(FakeGuest(cold=300 * MIB), 500 * MIB)
    assert (found.reclaimed, found.remaining, found.stop) == (300 * MIB, 200 * MIB, Stop.EXHAUSTED)


def test_pressure_ends_it_within_a_call() -> None:
    guest = FakeGuest()
    guest.pressure = lambda at: 30.0 if at > 1.5 else 1.0
    found = run(guest, 600 * MIB)
    assert (found.reclaimed, found.stop, found.pressure) == (400 * MIB, Stop.PRESSURE, 30.0)
    assert len(guest.calls()) == 3


def test_time_ends_it_and_the_last_call_is_shorter() -> None:
    guest = FakeGuest(speed=50 * MIB)
    found = run(guest, 600 * MIB, seconds=2.5)
    assert found.stop is Stop.DEADLINE
    assert guest.now <= 2.6
    assert guest.calls()[-1]["time-limit-ms"] < CALL_MS


def test_compaction_that_goes_on_is_waited_for_without_asking_for_more() -> None:
    guest = FakeGuest(cold=100 * MIB)
    guest.changes = {"compaction": "running", "more": True, "stop": "exhausted", "remaining": 0}
    found = run(guest, 500 * MIB, seconds=5.0)
    assert (found.stop, found.compaction) == (Stop.EXHAUSTED, Compaction.RUNNING)
    assert {call["bytes"] for call in guest.calls()[1:]} == {0}


def test_a_guest_that_begins_to_swap_is_asked_for_nothing_more() -> None:
    guest = FakeGuest()
    guest.changes = {"stop": "swap", "more": True, "compaction": "running"}
    found = run(guest, 500 * MIB, seconds=3.0)
    assert found.stop is Stop.SWAP
    assert [call["bytes"] for call in guest.calls()][:2] == [500 * MIB, 0]


def test_a_busy_guest_may_miss_a_call_but_not_every_one() -> None:
    guest = FakeGuest()
    guest.silent = 2
    assert run(guest, 100 * MIB).stop is Stop.DONE
    guest.silent = 3
    with pytest.raises(GuestTimeout):
        run(guest, 100 * MIB)


def test_a_guest_that_gets_nowhere_is_left() -> None:
    guest = FakeGuest()
    guest.changes = {"reclaimed": 0, "remaining": 100 * MIB, "stop": "time", "more": True, "compaction": "none"}
    with pytest.raises(GuestAnswerMalformed, match="nothing moved"):
        run(guest, 100 * MIB)
    assert len(guest.calls()) <= 10


def test_a_kernel_that_cannot_is_a_typed_error() -> None:
    guest = FakeGuest()
    guest.refusal = "the kernel does not support reclaiming memory: there is no '/sys/fs/cgroup/memory.reclaim'"
    with pytest.raises(GuestCommandFailed):
        run(guest, 100 * MIB)


def test_whoever_is_told_can_end_it() -> None:
    guest = FakeGuest()
    found = reclaim(
        guest.conversation,
        600 * MIB,
        10.0,
        60.0,
        tell=lambda progress: progress.reclaimed < 300 * MIB,
        clock=guest.clock,
        sleep=guest.sleep,
    )
    assert (found.reclaimed, found.stop) == (400 * MIB, Stop.INTERRUPTED)


MEMBERS = ["reclaimed", "remaining", "stop", "compaction", "more", "swapped-out", "pressure", "reportable-after"]


@given(st.dictionaries(st.sampled_from(MEMBERS), anything | st.sampled_from(["time", "swap", "running", True, 0])))
def test_any_answer_ends_in_bounded_time_with_a_reason_or_a_typed_error(changes: dict[str, object]) -> None:
    guest = FakeGuest()
    guest.changes = changes
    try:
        found = run(guest, 500 * MIB, seconds=20.0)
    except GuestError:
        return
    finally:
        assert len(guest.calls()) <= 20 / 0.05 + 1
    assert found.stop is not None
    assert 0 <= found.remaining <= 500 * MIB
    assert found.reclaimed >= 0
