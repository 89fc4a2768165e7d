from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memhint.guest.clamp import clamped
from memhint.objects.guest import GuestMemory, GuestSource

numbers = st.none() | st.integers(-(1 << 70), 1 << 70)
memories = st.builds(
    GuestMemory,
    source=st.just(GuestSource.KERNEL),
    at=st.just(1.0),
    total=numbers,
    free=numbers,
    available=numbers,
    cached=numbers,
    reported=numbers,
    unreported=numbers,
    lifetime_reported=numbers,
    free_by_order=st.none() | st.lists(st.integers(-(1 << 70), 1 << 70), max_size=20).map(tuple),
)


@given(memories, st.integers(0, 1 << 45))
def test_every_number_ends_within_what_was_assigned_and_the_sums_hold(memory: GuestMemory, assigned: int) -> None:
    sane = clamped(memory, assigned)
    whole = assigned if sane.total is None else sane.total
    assert 0 <= whole <= assigned
    for value in (sane.free, sane.available, sane.cached, sane.reported, sane.unreported):
        assert value is None or 0 <= value <= whole
    if sane.free is not None:
        assert (sane.reported or 0) + (sane.unreported or 0) <= sane.free
    if sane.free_by_order is not None:
        assert len(sane.free_by_order) <= 16
        assert all(size >= 0 for size in sane.free_by_order)
        assert sum(sane.free_by_order) <= whole
    assert sane.lifetime_reported is None or 0 <= sane.lifetime_reported < 1 << 63


@given(memories, st.integers(0, 1 << 45))
def test_exactly_the_changed_fields_are_named(memory: GuestMemory, assigned: int) -> None:
    sane = clamped(memory, assigned)
    names = [name for name in GuestMemory.__slots__ if name != "clamped"]
    assert {name for name in names if getattr(sane, name) != getattr(memory, name)} == set(sane.clamped)


@given(memories, st.integers(0, 1 << 45))
def test_clamping_twice_changes_nothing_more(memory: GuestMemory, assigned: int) -> None:
    once = clamped(memory, assigned)
    assert clamped(once, assigned) == once


def test_possible_numbers_stay_as_they_are() -> None:
    memory = GuestMemory(
        GuestSource.KERNEL, 1.0, total=90, free=50, available=80, cached=40, reported=30, unreported=20,
        free_by_order=(10, 40), lifetime_reported=5000,
    )  # fmt: skip
    assert clamped(memory, 100) == memory


def test_what_is_absent_stays_absent() -> None:
    memory = GuestMemory(GuestSource.HOST, 1.0)
    assert clamped(memory, 100) == memory


def test_a_guest_that_claims_more_than_it_has_is_cut_down_and_named() -> None:
    memory = GuestMemory(GuestSource.PROC, 1.0, total=1000, free=900, reported=800, unreported=700)
    sane = clamped(memory, 100)
    assert (sane.total, sane.free, sane.reported, sane.unreported) == (100, 100, 100, 0)
    assert sane.clamped == ("total", "free", "reported", "unreported")


def test_a_negative_assignment_is_a_mistake_of_the_caller() -> None:
    with pytest.raises(ValueError, match="0 bytes"):
        clamped(GuestMemory(GuestSource.HOST, 1.0), -1)
