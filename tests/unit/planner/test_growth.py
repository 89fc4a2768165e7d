"""The growth table: nothing is known at first, evidence loosens, and a VM is told by those before it."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memhint.objects.units import GIB
from memhint.planner.growth import (
    AGES,
    DAY,
    HORIZON,
    HOUR,
    LEAST,
    LEVELS,
    Outlook,
    cells_of,
    column_of,
    demand,
    deviation,
    empty,
    outlook,
    row_of,
    sentence,
    table_of,
)

FULL = len(LEVELS) - 1
TWELVE_HOURS, THIRTY, FORTY_FIVE = AGES.index(12 * HOUR), LEVELS.index(30), LEVELS.index(45)


def test_an_age_is_in_the_row_that_it_has_reached_and_a_share_in_the_column_that_holds_it() -> None:
    assert [row_of(age) for age in (0.0, 599.0, 600.0, 13 * HOUR, 400 * DAY)] == [0, 0, 1, TWELVE_HOURS, len(AGES) - 1]
    shares = (0, 2 * GIB, 30 * GIB, 30 * GIB + 1, 100 * GIB, 101 * GIB)
    assert [LEVELS[column_of(touched, 100 * GIB)] for touched in shares] == [2, 2, 30, 35, 100, 100]
    assert column_of(0, 0) == FULL


def test_a_fleet_begins_at_nominal_and_loosens_by_evidence() -> None:
    found = []
    for known in (0, LEAST - 1, LEAST, 100, 10_000):
        table = table_of(1, [(TWELVE_HOURS, THIRTY, FORTY_FIVE)] * known)
        found.append(outlook(table, TWELVE_HOURS, THIRTY).percent)
    assert found[:2] == [100, 100]
    assert 100 > found[2] > found[3] > found[4] >= 45
    assert found[4] == 46  # two that ended with all of it stay among any number
    assert outlook(empty(), 0, 0).percent == 100


def test_what_a_vm_comes_to_is_an_average_with_its_deviation() -> None:
    half = [(0, THIRTY, FORTY_FIVE)] * 50 + [(0, THIRTY, LEVELS.index(85))] * 48
    one = outlook(table_of(1, half), 0, THIRTY)
    mean = (50 * 45 + 48 * 85 + 2 * 100) / 100
    variance = (50 * 45**2 + 48 * 85**2 + 2 * 100**2) / 100 - mean**2
    assert (one.percent, one.count) == (math.ceil(mean), 98)
    assert one.variance == pytest.approx(variance, abs=1)
    # Four equal VMs miss their sum by two of their own deviations; the table keeps three such.
    kept = deviation([one] * 4, [8 * GIB] * 4)
    assert kept == pytest.approx(3 * 2 * math.sqrt(variance) / 100 * 8 * GIB, rel=0.01)
    assert deviation([], []) == 0


def test_where_too_few_were_that_old_younger_ones_with_as_much_are_asked() -> None:
    known = table_of(1, [(TWELVE_HOURS, THIRTY, FORTY_FIVE)] * 50 + [(len(AGES) - 1, THIRTY, THIRTY)] * (LEAST - 1))
    old = outlook(known, len(AGES) - 1, THIRTY)
    assert (old.age, old.count) == (12 * HOUR, 50)
    assert outlook(known, TWELVE_HOURS - 1, THIRTY).percent == 100  # older ones say nothing of the young
    assert outlook(known, TWELVE_HOURS, THIRTY + 1).percent == 100


@given(st.lists(st.tuples(st.integers(0, len(AGES) - 1), *[st.integers(0, FULL)] * 2), max_size=200), st.data())
def test_nobody_counts_with_less_than_was_touched_or_more_than_all(cells: list, data: st.DataObject) -> None:
    cells = [(age, touched, max(touched, ended)) for age, touched, ended in cells]
    row, column = data.draw(st.integers(0, len(AGES) - 1)), data.draw(st.integers(0, FULL))
    one = outlook(table_of(1, cells), row, column)
    assert LEVELS[column] <= one.percent <= 100
    assert one.variance >= 0
    assigned = data.draw(st.integers(1, 2**44))
    touched = assigned * LEVELS[column] // 100
    assert touched <= demand(one, assigned) <= assigned


def test_a_life_is_told_for_each_age_that_it_reached() -> None:
    course = [(0.0, 1 * GIB), (7200.0, 3 * GIB), (20_000.0, 2 * GIB), (90_000.0, 5 * GIB)]
    column = {share: LEVELS.index(share) for share in (10, 30, 50)}
    ended = column[50]
    told = cells_of(course, 10 * GIB, gone=True)
    # At ten minutes and at an hour the look at two hours is the first; a day has seen all of it.
    touched = [10, 30, 30, 30, 50, 50, 50]
    assert told == [(row, column[share], ended) for row, share in enumerate(touched)]
    assert cells_of(course, 10 * GIB, gone=False) == []
    assert cells_of([], 10 * GIB, gone=True) == []


def test_of_a_vm_that_still_runs_only_what_is_long_enough_ago_is_told() -> None:
    course = [(hour * HOUR, GIB) for hour in range(int((HORIZON + DAY) / HOUR) + 1)]
    assert [AGES[row] for row, _, _ in cells_of(course, 2 * GIB, gone=False)] == [age for age in AGES if age <= DAY]


def test_the_reason_is_one_sentence() -> None:
    assert sentence(Outlook(45, 9, 12 * HOUR, 30, 213)) == "VMs 12 h old that touched 30 % ended at 45 %, n = 213"
    assert sentence(Outlook(45, 9, 600.0, 30, 20)) == "VMs 10 min old that touched 30 % ended at 45 %, n = 20"
    assert sentence(Outlook(45, 9, 4 * DAY, 30, 20)) == "VMs 4 days old that touched 30 % ended at 45 %, n = 20"
    assert sentence(outlook(empty(), 0, 3)) == "too few VMs that touched 8 % are known: all of its memory"
