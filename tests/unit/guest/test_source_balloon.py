from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memhint.guest.source_balloon import from_balloon_stats
from memhint.objects.gap import Gap, GapReason
from memhint.objects.guest import GuestMemory, GuestSource
from memhint.objects.units import GIB, KIB

from .strategies import anything

STATS = {
    "balloon.current": 2097152,
    "balloon.maximum": 2097152,
    "balloon.available": 2015984,
    "balloon.unused": 512000,
    "balloon.usable": 1500000,
    "balloon.disk_caches": 900000,
    "balloon.last-update": 1000,
    "balloon.rss": 700000,
}


def test_libvirts_names_are_translated_and_kib_become_bytes() -> None:
    assert from_balloon_stats(STATS, 1005.5, 2 * GIB) == GuestMemory(
        source=GuestSource.BALLOON,
        at=1000.0,
        total=2015984 * KIB,
        free=512000 * KIB,
        available=1500000 * KIB,
        cached=900000 * KIB,
    )


def test_old_numbers_keep_their_age() -> None:
    memory = from_balloon_stats(STATS, 9000.0, 2 * GIB)
    assert isinstance(memory, GuestMemory)
    assert memory.at == 1000.0


@pytest.mark.parametrize("updated", [9003, 9000 + 7200, 10**30])
def test_numbers_from_the_future_are_a_gap_for_the_clock_was_set_back(updated: int) -> None:
    gap = from_balloon_stats(STATS | {"balloon.last-update": updated}, 9000.0, 2 * GIB, ahead=2.0)
    assert isinstance(gap, Gap)
    assert (gap.reason, "set back" in gap.detail) == (GapReason.TIMEOUT, True)


def test_numbers_that_came_while_libvirt_was_asked_are_of_now() -> None:
    memory = from_balloon_stats(STATS | {"balloon.last-update": 9002}, 9000.0, 2 * GIB, ahead=2.0)
    assert isinstance(memory, GuestMemory)
    assert memory.at == 9000.0


@pytest.mark.parametrize("stats", [{}, {"balloon.current": 5}, STATS | {"balloon.last-update": 0}])
def test_statistics_that_never_came_are_a_gap_not_zero(stats: dict[str, object]) -> None:
    gap = from_balloon_stats(stats, 9000.0, GIB)
    assert isinstance(gap, Gap)
    assert gap.reason is GapReason.UNSUPPORTED


def test_statistics_without_any_memory_are_a_gap() -> None:
    assert isinstance(from_balloon_stats({"balloon.last-update": 1000}, 9000.0, GIB), Gap)


def test_what_an_old_driver_does_not_send_is_absent() -> None:
    memory = from_balloon_stats({"balloon.last-update": 1000, "balloon.unused": 10}, 9000.0, GIB)
    assert isinstance(memory, GuestMemory)
    assert (memory.free, memory.total, memory.available, memory.cached) == (10 * KIB, None, None, None)


@pytest.mark.parametrize("key", ["balloon.unused", "balloon.last-update"])
@pytest.mark.parametrize("value", ["5", 5.0, True, [5]])
def test_what_is_no_number_is_not_taken_for_one(key: str, value: object) -> None:
    gap = from_balloon_stats({**STATS, key: value}, 9000.0, GIB)
    assert isinstance(gap, Gap)
    assert gap.reason is GapReason.MALFORMED


def test_a_guest_that_claims_more_than_it_has_is_clamped() -> None:
    memory = from_balloon_stats(STATS, 9000.0, GIB)
    assert isinstance(memory, GuestMemory)
    assert memory.total == memory.available == GIB
    assert set(memory.clamped) == {"total", "available"}


@given(st.dictionaries(st.sampled_from(list(STATS)), st.integers() | anything), st.integers(0, 1 << 45))
def test_any_statistics_give_clamped_numbers_or_a_gap(stats: dict[str, object], assigned: int) -> None:
    memory = from_balloon_stats(stats, 9000.0, assigned)
    if isinstance(memory, Gap):
        return
    assert memory.at <= 9000.0
    for value in (memory.total, memory.free, memory.available, memory.cached):
        assert value is None or 0 <= value <= assigned
