"""The growth table: a VM counts with no less than those like it came to, and no host teaches more than its part."""

from dataclasses import replace

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
    LEAST_KEPT,
    LEVELS,
    NOTHING,
    PARTS,
    GrowthError,
    GrowthTable,
    Outlook,
    checked,
    column_of,
    course_of,
    floor,
    outlook,
    row_of,
    sentence,
    table_of,
    tally_of,
    told_by,
)

FULL = len(LEVELS) - 1
TWELVE_HOURS, THIRTY, FORTY_FIVE = AGES.index(12 * HOUR), LEVELS.index(30), LEVELS.index(45)
CELL = (TWELVE_HOURS, THIRTY)


def hosts_that_say(*parts: tuple[int, int], cell: tuple[int, int] = CELL) -> list[dict]:
    """Hosts of which each had so many VMs in a cell, and they came to so many percent."""
    return [{cell: (count, count * percent)} for count, percent in parts]


@st.composite
def tallies(draw: st.DrawFn) -> list[dict]:
    """What any hosts could say; only that VMs came to less than they had is left out, for it cannot be."""
    found = []
    for _ in range(draw(st.integers(0, 8))):
        tally = {}
        for _ in range(draw(st.integers(0, 12))):
            cell = draw(st.tuples(st.integers(0, len(AGES) - 1), st.integers(0, FULL)))
            count = draw(st.integers(1, 100))
            tally[cell] = (count, count * draw(st.integers(0, 100)))
        found.append(tally)
    return found


@pytest.mark.parametrize(("kept", "told"), [(LEAST_KEPT, True), (LEAST_KEPT - DAY - HOUR, False), (3 * DAY, False)])
def test_of_a_vms_first_day_is_told_where_points_are_kept_for_long_enough(kept: float, told: bool) -> None:
    """At some time of its life, as hosts are looked at once a day. With fewer days it is old before that time."""
    rows = set()
    for hours in range(1, int(kept / HOUR) + 1):
        points = [(hour * HOUR, GIB, 4 * GIB) for hour in range(hours)]
        rows |= {row for row, _ in told_by(course_of(points, kept))}
    young = set(range(row_of(DAY)))
    assert (young <= rows) is told
    assert bool(young & rows) is told


def test_an_age_is_in_the_row_that_it_has_reached_and_a_share_in_the_column_that_holds_it() -> None:
    assert [row_of(age) for age in (-5.0, 0.0, 3599.0, 3600.0, 13 * HOUR, 400 * DAY)] == [
        *(0, 0, 0, 1, TWELVE_HOURS),
        len(AGES) - 1,
    ]
    shares = (0, 2 * GIB, 30 * GIB, 30 * GIB + 1, 100 * GIB, 101 * GIB)
    assert [LEVELS[column_of(use, 100 * GIB)] for use in shares] == [2, 2, 30, 35, 100, 100]
    assert column_of(0, 0) == FULL


def test_a_vm_tells_the_most_of_the_week_after_each_look() -> None:
    # Idle at 10 % but for an hour at 80 %, eight days after it came.
    course = [(hour * HOUR, 80 if hour == 192 else 10, 100) for hour in range(21 * 24 + 1)]
    told = told_by(course)
    ten, eighty = LEVELS.index(10), LEVELS.index(80)
    # For a day nobody saw the peak within a week; from then on all did, until it was over.
    young = {AGES[row]: percent for (row, column), percent in told.items() if column == ten}
    assert [young[age] for age in AGES[:5]] == [10] * 5
    assert young[DAY] == young[2 * DAY] == young[4 * DAY] == 80
    # 25 of the 168 looks in the second week are before it, and the others look ahead at idle hours only.
    assert young[7 * DAY] == -(-(24 * 80 + 143 * 10) // 167)
    assert told[AGES.index(7 * DAY), eighty] == 80
    assert (len(AGES) - 1, ten) in told  # the last one that is a week ago
    assert told_by(course[: 7 * 24]) == {}  # nothing is a week ago yet
    assert told_by([]) == {}


@given(st.lists(st.tuples(st.floats(0, DAY), st.integers(0, 200)), max_size=80))
def test_what_a_vm_tells_is_what_a_slow_reading_of_its_course_does(steps: list[tuple[float, int]]) -> None:
    course, age = [], 0.0
    for elapsed, use in steps:
        course.append((age, use, 128))
        age += elapsed
    slow: dict = {}
    for at, use, assigned in course:
        if at + HORIZON <= course[-1][0]:
            most = max(one for there, one, _ in course if at <= there <= at + HORIZON)
            slow.setdefault((row_of(at), column_of(use, assigned)), []).append(min(100, -(-100 * most // assigned)))
    assert told_by(course) == {cell: -(-sum(found) // len(found)) for cell, found in slow.items()}


def test_a_vm_whose_beginning_is_forgotten_is_an_old_one() -> None:
    points = [(1e9 + hour * HOUR, 10, 100) for hour in range(30 * 24)]
    assert course_of(points[:-25], 30 * DAY)[0] == (0.0, 10, 100)
    assert course_of(points, 30 * DAY)[0] == (AGES[-1], 10, 100)
    assert {row for row, _ in told_by(course_of(points, 30 * DAY))} == {len(AGES) - 1}
    assert course_of([], DAY) == []


def test_a_host_has_each_of_its_vms_once_in_a_cell() -> None:
    assert tally_of([{CELL: 40, (0, 0): 5}, {CELL: 50}]) == {CELL: (2, 90), (0, 0): (1, 5)}


def test_nothing_is_said_before_enough_vms_of_enough_hosts_are_known() -> None:
    def says(*parts: tuple[int, int]) -> Outlook:
        return outlook(table_of(1, hosts_that_say(*parts)), 13 * HOUR, 30 * GIB, 100 * GIB)

    assert says() == says((1000, 45)) == says(*[(1000, 45)] * (PARTS - 1)) == NOTHING
    assert says(*[(1, 45)] * (LEAST - 1)) == NOTHING
    assert says(*[(1, 45)] * LEAST) == Outlook(45, *CELL, LEAST)
    assert floor(says(*[(1, 45)] * LEAST), 8 * GIB) == 8 * GIB * 45 // 100
    assert floor(NOTHING, 8 * GIB) == 0


@given(
    st.lists(st.tuples(st.integers(1, 500), st.integers(0, 100)), min_size=PARTS, max_size=12),
    st.integers(1, 10**9),
    st.integers(0, 100),
)
def test_one_host_moves_an_average_by_a_quarter_of_the_way_at_most(
    honest: list[tuple[int, int]], many: int, lie: int
) -> None:
    _, liar = hosts_that_say((1, 0), (many, lie))
    percent = outlook(table_of(1, [*hosts_that_say(*honest), liar]), 13 * HOUR, 30, 100).percent
    least, most = min(part for _, part in honest), max(part for _, part in honest)
    if percent:  # enough are known
        assert least + (min(lie, least) - least) / PARTS - 1 <= percent <= most + (max(lie, most) - most) / PARTS + 1


def test_where_too_few_were_that_old_the_younger_count_and_who_uses_more_comes_to_no_less() -> None:
    known = [*hosts_that_say(*[(5, 45)] * 4), *hosts_that_say(*[(2, 90)] * 4, cell=(len(AGES) - 1, THIRTY))]
    known += hosts_that_say(*[(5, 38)] * 4, cell=(TWELVE_HOURS, FORTY_FIVE))
    table = table_of(1, known)
    seen = Outlook(45, *CELL, 20)
    assert outlook(table, 30 * DAY, 30, 100) == seen
    assert outlook(table, 30 * DAY, 45, 100) == seen  # theirs came to less: that is no reason for this one to
    assert outlook(table, 30 * DAY, 100, 100) == seen
    assert outlook(table, 30 * DAY, 29, 100) == seen
    assert outlook(table, 30 * DAY, 25, 100) == NOTHING
    assert outlook(table, 6 * HOUR, 30, 100) == NOTHING  # older ones say nothing of the young


@given(tallies())
def test_every_table_that_is_learnt_is_one_and_rises_with_use(hosts: list[dict]) -> None:
    table = checked(table_of(7, hosts))
    for row in table.cells:
        percents = [one.percent for one in row]
        assert percents == sorted(percents)
        for one in row:
            assert (one.percent == 0 and one.count == 0) or one.count >= LEAST or one.percent == 0


@given(tallies(), st.integers(1, 2**44), st.integers(0, 2**44), st.integers(0, 2**44), st.floats(0, 1e8))
def test_a_vm_that_grows_counts_with_no_less(hosts: list[dict], assigned: int, use: int, more: int, age: float) -> None:
    table = table_of(1, hosts)
    assert 0 <= floor(outlook(table, age, use, assigned), assigned) <= assigned
    grown = outlook(table, age, use + more, assigned)
    assert floor(outlook(table, age, use, assigned), assigned) <= floor(grown, assigned)


GOOD = table_of(3, hosts_that_say(*[(5, 45)] * 4))


def changed(at: int, share: int, **values: int) -> GrowthTable:
    cells = [list(one) for one in GOOD.cells]
    cells[at][share] = replace(cells[at][share], **values)
    return GrowthTable(3, tuple(map(tuple, cells)))


@pytest.mark.parametrize(
    ("table", "why"),
    [
        (GrowthTable(0, GOOD.cells), "version"),
        (GrowthTable(2**53, GOOD.cells), "version"),
        (GrowthTable(3, GOOD.cells[1:]), "10 ages of 24 shares"),
        (GrowthTable(3, (GOOD.cells[0][1:], *GOOD.cells[1:])), "10 ages of 24 shares"),
        (changed(9, FULL, percent=101), "out of range"),
        (changed(9, 0, percent=-1), "out of range"),
        (changed(9, FULL, count=2**31 + 1), "out of range"),
        (changed(4, FULL, row=5), "older"),
        (changed(9, 0, column=1), "uses more"),
        (changed(9, FULL, row=-1), "older"),
        (changed(9, FULL, count=LEAST - 1), "fewer than 10"),
        (changed(9, FULL, percent=44), "comes to less"),
    ],
)
def test_what_is_no_table_is_refused(table: GrowthTable, why: str) -> None:
    assert checked(GOOD) is GOOD
    with pytest.raises(GrowthError, match=why):
        checked(table)


def test_the_reason_is_one_sentence() -> None:
    said = "VMs 12 h old that used 30 % came to 45 % within a week, n = 213"
    assert sentence(Outlook(45, *CELL, 213)) == said
    assert sentence(Outlook(45, AGES.index(4 * DAY), 0, 20)).startswith("VMs 4 days old that used 2 % came")
