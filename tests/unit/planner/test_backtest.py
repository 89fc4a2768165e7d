"""The running backtest: an hour holds where all that was promised as it began could have been given."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from memhint.objects.history import HistoryPoint
from memhint.objects.promise import PromisedHour
from memhint.objects.units import GIB
from memhint.planner.backtest import HOUR, LATE, judged

RESERVE = 2 * GIB


def point(at: float, headroom: int = 10, available: int = 20, used: int = 40, assigned: int = 80, swapped: int = 0):
    """GiB at a moment of a host with 2 GiB of reserve."""
    return HistoryPoint(
        at, headroom * GIB, 0, assigned * GIB, (used + swapped) * GIB, used * GIB, available * GIB, swapped * GIB, None
    )


def of(*points: HistoryPoint) -> PromisedHour:
    (found,) = judged(points, RESERVE)
    return found


def test_what_was_promised_is_what_was_promised_as_the_hour_began() -> None:
    found = of(point(0.0), point(600.0, headroom=0, available=12), point(3500.0, headroom=90, available=30))
    assert found == PromisedHour(0.0, 10 * GIB, 10 * GIB)
    assert found.held


def test_an_hour_breaks_where_vms_come_to_more_than_was_left_for_them() -> None:
    found = of(point(0.0), point(600.0, available=11, used=49))
    assert (found.came, found.held) == (9 * GIB, False)


def test_what_vms_have_in_swap_is_not_there() -> None:
    assert not of(point(0.0), point(600.0, available=20, used=31, swapped=9)).held


def test_an_hour_is_judged_until_a_vm_comes() -> None:
    """It may not have touched what it was given, and others may have: how much is owed to it is not known."""
    came = point(1200.0, headroom=2, available=3, used=57, assigned=88)
    assert of(point(0.0), point(600.0), came).held
    assert not of(point(0.0), point(600.0, available=11, used=49), came).held
    assert judged([point(0.0), came], RESERVE) == ()
    assert not of(point(0.0), point(600.0, available=11, used=49, assigned=72)).held  # one left


def test_a_host_that_promised_nothing_holds_unless_its_reserve_is_touched() -> None:
    assert of(point(0.0, headroom=0, available=2), point(9.0, headroom=0, available=2)).held
    broken = of(point(0.0, headroom=0, available=2), point(9.0, headroom=0, available=1))
    assert (broken.came, broken.held) == (-GIB, False)


def test_an_hour_of_which_little_is_known_is_not_judged() -> None:
    assert judged([point(5.0)], RESERVE) == ()
    assert judged([point(LATE + 1), point(LATE + 2)], RESERVE) == ()
    assert judged([replace(point(at), span=3600) for at in (0.0, 3600.0)], RESERVE) == ()
    known = judged([point(at) for at in (0.0, 9.0, HOUR + 9.0, 2 * HOUR, 2 * HOUR + 9)], RESERVE)
    assert [one.at for one in known] == [0.0, 2 * HOUR]


sizes = st.integers(0, 64)
points = st.lists(
    st.builds(point, st.floats(0, 5 * HOUR), sizes, sizes, sizes, sizes, sizes), min_size=2, max_size=40
).map(lambda some: sorted(some, key=lambda one: one.at))


@given(seen=points, more=st.integers(0, 2**40), place=st.integers(0, 39))
def test_more_memory_breaks_no_hour_and_a_larger_promise_mends_none(seen, more: int, place: int) -> None:
    before = judged(seen, RESERVE)
    roomy = judged([replace(one, available=one.available + more) for one in seen], RESERVE)
    greedy = judged([replace(one, headroom=one.headroom + more) for one in seen], RESERVE)
    assert all(two.held or not one.held for one, two in zip(before, roomy, strict=True))
    assert all(one.held or not two.held for one, two in zip(before, greedy, strict=True))
    assert [one.at for one in before] == sorted({one.at for one in before})
