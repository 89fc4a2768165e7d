"""Which parts of a VM are worth KSM's time."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from memhint.objects.merge_ranges import Range, united, within, without
from memhint.planner.dedup_ranges import AT_MOST, BLOCK, DENSE, choose, fewer

PAGE = 4096
SIZE = BLOCK * PAGE
FULL = BLOCK


def test_full_blocks_are_a_range_and_the_rest_of_the_vm_is_left_alone() -> None:
    counts = bytes([0] * 100 + [FULL] * 10 + [0] * 100)
    found = choose([(1 << 30, counts)], partners=160, looked=210 * BLOCK, page_size=PAGE)
    assert found.ranges == (((1 << 30) + 100 * SIZE, (1 << 30) + 110 * SIZE),)
    assert (found.holds, found.size) == (160, 10 * SIZE)


def test_candidates_in_error_do_not_count() -> None:
    """One page in a hundred, all over."""
    counts = bytes([1 if at % 6 == 0 else 0 for at in range(600)])
    assert choose([(0, counts)], partners=0, looked=600 * BLOCK, page_size=PAGE).ranges == ()


def test_small_gaps_are_taken_in_across_pieces_too() -> None:
    one, other = bytes([0, FULL, 0]), bytes([FULL, 0, 0, FULL] + [0] * 50)
    found = choose([(0, one), (3 * SIZE, other)], partners=48, looked=57 * BLOCK, page_size=PAGE)
    assert found.ranges == ((SIZE, 4 * SIZE), (6 * SIZE, 7 * SIZE))


def test_where_ranges_would_leave_out_much_all_of_the_vm_is_merged() -> None:
    scattered = bytes([DENSE - 1] * 1000)
    assert choose([(0, scattered)], partners=2000, looked=16_000, page_size=PAGE).ranges is None


def test_where_ranges_would_leave_out_little_all_of_the_vm_is_merged() -> None:
    assert choose([(0, bytes([FULL] * 90))], partners=90 * 16, looked=100 * BLOCK, page_size=PAGE).ranges is None


def test_a_vm_without_candidates_has_nothing_to_merge() -> None:
    assert choose([], partners=0, looked=1000, page_size=PAGE).ranges == ()


def test_there_are_never_more_ranges_than_qemu_is_to_be_given() -> None:
    counts = bytes(([FULL] + [0] * 9) * (4 * AT_MOST))
    found = choose([(0, counts)], partners=FULL * 4 * AT_MOST, looked=10 * 16 * 40 * AT_MOST, page_size=PAGE)
    assert found.ranges is not None
    assert len(found.ranges) == AT_MOST
    assert found.holds == FULL * 4 * AT_MOST


def test_the_narrowest_gaps_are_closed() -> None:
    assert fewer([(0, 1), (10, 11), (12, 13), (40, 41)], 3) == ((0, 1), (10, 13), (40, 41))
    assert fewer([(0, 1), (10, 11), (12, 13), (40, 41)], 1) == ((0, 41),)


def pages(ranges: tuple[Range, ...]) -> set[int]:
    return {at for start, end in ranges for at in range(start, end)}


apart = st.lists(st.integers(0, 60), unique=True, max_size=20).map(
    lambda cuts: tuple(zip(*[iter(sorted(cuts)[: len(cuts) // 2 * 2])] * 2, strict=True))
)


@given(one=apart, other=apart, start=st.integers(0, 60), size=st.integers(0, 60), most=st.integers(1, 10))
def test_ranges_as_sets(one: tuple[Range, ...], other: tuple[Range, ...], start: int, size: int, most: int) -> None:
    assert pages(united(one, other)) == pages(one) | pages(other)
    assert pages(without(united(one, ()), other)) == pages(one) - pages(other)
    assert pages(within(one, start, start + size)) == pages(one) & set(range(start, start + size))
    few = fewer(one, most)
    assert len(few) <= max(most, 1)
    assert pages(few) >= pages(one)
