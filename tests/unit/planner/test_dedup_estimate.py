"""The estimate: exact where all is kept, close and unbiased where one content in some is, honest about its error."""

from __future__ import annotations

import random
from collections import Counter
from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memhint.planner.dedup_estimate import (
    ADVISOR_PAGES,
    MAX_PAGE_SHARING,
    RMAP_ITEM,
    SCAN_SECONDS_PER_PAGE,
    KsmPace,
    PageSample,
    estimate,
    ksm_cost,
    rate_for,
)

PAGE = 4096
PACE = KsmPace()


def sample(contents: list[int], rate: int = 1, **changes) -> PageSample:
    """What a pass over these pages keeps; a content is its own hash."""
    kept = [one for one in contents if one % rate == 0]
    return PageSample(
        1.0, rate, len(contents) + changes.get("zeros", 0), kept, changes.pop("changed", 0), **{"zeros": 0, **changes}
    )


def merged_by_ksm(vms: list[list[int]]) -> int:
    """Pages given back: what KSM does, counted directly."""
    copies = Counter(one for vm in vms for one in vm)
    return sum(count - ceil(count / MAX_PAGE_SHARING) for count in copies.values())


def test_copies_within_and_across_are_told_apart() -> None:
    whole, parts = estimate({"a": sample([1, 1, 1, 2, 3]), "b": sample([2, 9])}, "p1", PAGE, PACE)
    assert (whole.within, whole.across, whole.zero) == (2 * PAGE, 1 * PAGE, 0)
    assert whole.saving == 3 * PAGE
    assert whole.error == 0  # everything was kept
    assert [part.within for part in parts] == [2 * PAGE, 0]
    assert sum(part.across for part in parts) == pytest.approx(PAGE, abs=PAGE)


@given(st.lists(st.lists(st.integers(0, 30), max_size=60), max_size=5))
def test_with_all_kept_it_is_what_ksm_gives_back(vms: list[list[int]]) -> None:
    whole, _ = estimate({str(number): sample(vm) for number, vm in enumerate(vms)}, None, PAGE, PACE)
    assert whole.saving == merged_by_ksm(vms) * PAGE
    assert whole.looked == sum(map(len, vms)) * PAGE


def test_max_page_sharing_keeps_a_copy_of_every_256() -> None:
    whole, _ = estimate({"a": sample([5] * 1000)}, None, PAGE, PACE)
    assert whole.saving == (1000 - 4) * PAGE


def fleet(draw: random.Random, shared: float, vms: int = 4, pages: int = 2000) -> list[list[int]]:
    common = [draw.getrandbits(64) for _ in range(int(pages * shared))]
    return [common + [draw.getrandbits(64) for _ in range(pages - len(common))] for _ in range(vms)]


@pytest.mark.parametrize("shared", [0.0, 0.3, 0.9])
def test_a_content_in_some_gives_the_whole_without_bias_and_within_its_error(shared: float) -> None:
    draw = random.Random(4)
    rate, trials, ratios, within = 8, 150, [], 0
    for _ in range(trials):
        vms = fleet(draw, shared, pages=1000)
        whole, _ = estimate({str(at): sample(vm, rate) for at, vm in enumerate(vms)}, None, PAGE, PACE)
        truth = merged_by_ksm(vms) * PAGE
        ratios.append((whole.saving - truth) / whole.looked)
        within += abs(whole.saving - truth) <= whole.error
    assert abs(sum(ratios) / trials) < 0.01  # of the footprint
    assert within >= 0.88 * trials  # 95 of 100, less what chance does to 150


def test_picking_pages_by_their_place_would_miss_most_copies() -> None:
    """Why the sample is taken by content."""
    draw = random.Random(5)
    vms = fleet(draw, 0.9)
    truth = merged_by_ksm(vms)
    by_place = [draw.sample(vm, len(vm) // 8) for vm in vms]
    assert 8 * merged_by_ksm(by_place) < 0.5 * truth
    whole, _ = estimate({str(at): sample(vm, 8) for at, vm in enumerate(vms)}, None, PAGE, PACE)
    assert whole.saving / PAGE == pytest.approx(truth, rel=0.2)


def test_samples_of_different_rates_are_brought_to_the_coarsest() -> None:
    draw = random.Random(6)
    vms = fleet(draw, 0.5)
    mixed, _ = estimate({"a": sample(vms[0], 1), "b": sample(vms[1], 8)}, None, PAGE, PACE)
    alike, _ = estimate({"a": sample(vms[0], 8), "b": sample(vms[1], 8)}, None, PAGE, PACE)
    assert mixed == alike


def test_pages_that_change_count_nowhere() -> None:
    steady, _ = estimate({"a": sample([8] * 10)}, None, PAGE, PACE)
    restless, (part,) = estimate({"a": sample([8] * 5 + [8] * 0, changed=5)}, None, PAGE, PACE)
    assert steady.saving == 9 * PAGE
    assert restless.saving == 4 * PAGE
    assert part.changed == 5 * PAGE


def test_zeros_that_stay_are_saved_and_those_merged_before_as_well() -> None:
    found, (part,) = estimate({"a": sample([], zeros=1000, zeros_tried=100, zeros_held=90)}, None, PAGE, PACE)
    assert part.zero == found.saving == 900 * PAGE
    assert part.changed == 100 * PAGE
    assert 0 < found.error < 100 * PAGE
    merged, _ = estimate({"a": sample([], zeros_merged=500)}, None, PAGE, PACE)
    assert (merged.saving, merged.looked) == (500 * PAGE, 500 * PAGE)


def test_without_the_zero_page_zeros_are_a_content_like_others() -> None:
    zeros = {"a": sample([], zeros=2560, zeros_tried=10, zeros_held=10)}
    whole, _ = estimate(zeros, None, PAGE, KsmPace(use_zero_pages=False))
    assert whole.saving == (2560 - 10) * PAGE


def test_where_only_empty_pages_merge_nothing_else_counts() -> None:
    pages = {"a": sample([1, 1, 2], 8, zeros=1000, zeros_tried=1000, zeros_held=1000), "b": sample([1, 2], 8)}
    whole, parts = estimate(pages, "p1", PAGE, KsmPace(empty_only=True))
    assert (whole.saving, whole.error, whole.within, whole.across) == (1000 * PAGE, 0, 0, 0)
    assert [part.saving for part in parts] == [1000 * PAGE, 0]


def test_seeing_no_copy_proves_only_that_there_are_few() -> None:
    whole, _ = estimate({"a": sample(list(range(0, 8000, 8)), 8)}, None, PAGE, PACE)
    assert whole.saving == 0
    assert whole.error == 3 * 8 * PAGE
    assert whole.sure < 0


def test_nobody_is_nothing() -> None:
    whole, parts = estimate({}, None, PAGE, PACE)
    assert (whole.saving, whole.error, whole.looked, parts) == (0, 0, 0, ())


@given(st.integers(0, 1 << 40), st.integers(1, 1 << 20))
def test_the_rate_is_the_smallest_power_of_two_that_fits(pages: int, keep: int) -> None:
    rate = rate_for(pages, keep)
    assert rate & (rate - 1) == 0
    assert pages <= rate * keep
    assert rate == 1 or pages > rate // 2 * keep


# -- what KSM costs ----------------------------------------------------------------------------------------------------


def test_metadata_is_what_general_profit_counts() -> None:
    assert ksm_cost(1000, PACE).metadata == 1000 * RMAP_ITEM == 64_000


def test_profit_is_what_is_saved_less_metadata() -> None:
    whole, _ = estimate({"a": sample([4, 4, 5])}, None, PAGE, PACE)
    assert whole.profit == PAGE - 3 * RMAP_ITEM


def test_a_fixed_pace_takes_its_share_of_a_core() -> None:
    cost = ksm_cost(1_000_000, KsmPace(advised=False, pages_to_scan=100, sleep_millisecs=20))
    busy = 100 * SCAN_SECONDS_PER_PAGE
    assert cost.cpu_percent == pytest.approx(100 * busy / (busy + 0.02))
    assert cost.scan_seconds == pytest.approx(10_000 * (busy + 0.02))


@given(st.integers(1, 1 << 32), st.integers(1, 3600), st.integers(1, 100), st.integers(0, 1000))
def test_the_advisor_keeps_to_its_bounds(pages: int, target: int, most: int, sleep: int) -> None:
    cost = ksm_cost(pages, KsmPace(target_scan_time=target, max_cpu=most, sleep_millisecs=sleep))
    floor = ADVISOR_PAGES[0] * SCAN_SECONDS_PER_PAGE
    least = 100 * floor / (floor + sleep / 1000)
    assert cost.cpu_percent <= max(most, least) + 1e-6
    assert cost.scan_seconds > 0


def test_the_advisor_meets_its_target_where_the_cpu_suffices() -> None:
    cost = ksm_cost(8_000_000, KsmPace(target_scan_time=200, max_cpu=70))
    assert cost.scan_seconds == pytest.approx(200, rel=0.01)
