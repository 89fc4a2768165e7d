"""A VM wakes when much of what it has in swap is read from there and used."""

from __future__ import annotations

from memhint.objects.units import GIB, MIB
from memhint.planner.wakes import WINDOW, Asleep, next_asleep


def test_a_mib_that_comes_back_within_a_second_is_a_wake() -> None:
    one = Asleep(has=GIB, swap=100 * MIB, read=0, since=0.0)
    after, woke = next_asleep(one, 99 * MIB + 1, MIB, 0.5)
    assert (after, woke) == (one, False)
    after, woke = next_asleep(after, 99 * MIB, MIB, 0.9)
    assert woke
    assert after == Asleep(GIB, 99 * MIB, MIB, 0.9)


def test_the_same_over_a_long_time_is_none() -> None:
    one = Asleep(has=GIB, swap=100 * MIB, read=0, since=0.0)
    for second in range(1, 100):
        one, woke = next_asleep(one, 100 * MIB - second * MIB // 2, second * MIB // 2, second * WINDOW)
        assert not woke


def test_of_a_large_vm_it_takes_more() -> None:
    one = Asleep(has=64 * GIB, swap=20 * GIB, read=0, since=0.0)
    assert not next_asleep(one, 20 * GIB - 31 * MIB, GIB, 0.1)[1]
    assert next_asleep(one, 20 * GIB - 32 * MIB, GIB, 0.1)[1]


def test_what_a_guest_gives_up_was_not_used() -> None:
    one = Asleep(has=GIB, swap=100 * MIB, read=0, since=0.0)
    assert not next_asleep(one, 0, MIB - 1, 0.1)[1]


def test_what_goes_to_swap_meanwhile_begins_a_new_window() -> None:
    one = Asleep(has=GIB, swap=100 * MIB, read=0, since=0.0)
    after, woke = next_asleep(one, 150 * MIB, MIB, 0.5)
    assert not woke
    assert after == Asleep(GIB, 150 * MIB, MIB, 0.5)
