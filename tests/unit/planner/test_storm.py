"""The storm reserve: many small VMs are not one large one, and nobody who grows makes more room."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memhint.objects.plan import Demand, DemandReason
from memhint.objects.units import GIB, MIB
from memhint.planner.capacity import Sums, capacity, spare
from memhint.planner.settings import PlannerSettings
from memhint.planner.storm import may_return, storm_reserve

SETTINGS = PlannerSettings()
DISTANCES = st.lists(st.integers(0, 2**44), max_size=12)
PERCENT = st.integers(0, 100)


def equal(count: int) -> list[Demand]:
    return [Demand("", 4 * GIB, 1 * GIB, 1 * GIB, DemandReason.FORECAST) for _ in range(count)]


def test_as_shipped_a_tenth_of_many_equal_vms_may_come_back_and_not_one_of_them_only() -> None:
    claims = 64 * 3 * GIB
    assert spare(equal(64), 0.0, SETTINGS) > 0.10 * claims
    assert spare(equal(64), 0.0, replace(SETTINGS, storm_percent=0)) < 0.02 * claims
    assert spare(equal(64), 0.0, replace(SETTINGS, storm_percent=50)) > 0.50 * claims


def test_two_deviations_are_kept_beside_the_average() -> None:
    # Σ = 64 × 3 GiB; the deviation of a tenth of 64 VMs is √(64 × 0.1 × 0.9) = 2.4 VMs.
    assert storm_reserve([3 * GIB] * 64, 10) == pytest.approx((6.4 + 2 * 2.4) * 3 * GIB)
    # One VM with the memory of all: its deviation is 0.3 of it.
    assert storm_reserve([192 * GIB], 10) == pytest.approx((0.1 + 2 * 0.3) * 192 * GIB)
    assert storm_reserve([3 * GIB] * 64, 0) == 0


@given(DISTANCES, PERCENT, PERCENT)
def test_it_rises_with_the_share_and_is_never_more_than_all(distances: list[int], one: int, other: int) -> None:
    less, more = sorted((one, other))
    assert storm_reserve(distances, less) <= storm_reserve(distances, more) <= sum(distances)


@given(DISTANCES.filter(bool), st.data(), PERCENT)
def test_what_a_vm_takes_the_reserve_gives_back_no_more_than(
    distances: list[int], data: st.DataObject, percent: int
) -> None:
    vm = data.draw(st.integers(0, len(distances) - 1))
    grown = data.draw(st.integers(0, distances[vm]))
    after = [*distances[:vm], distances[vm] - grown, *distances[vm + 1 :]]
    assert (
        storm_reserve(distances, percent) - grown <= storm_reserve(after, percent) <= storm_reserve(distances, percent)
    )


def test_the_grade_is_what_may_come_back_at_once() -> None:
    sums = Sums(pool=100 * GIB, available=80 * GIB, resident=16 * GIB, ksm_saving=0, other=0, swap=0, fault_in_rate=0.0)
    found = capacity(sums, equal(16), SETTINGS)
    room = 100 * GIB - 5 * GIB - 16 * GIB
    assert may_return(found) == 100  # 48 GiB of 79
    assert may_return(replace(found, other=room - 12 * GIB)) == 25
    assert may_return(replace(found, other=room + 12 * GIB)) == 0
    assert may_return(capacity(sums, [], SETTINGS)) is None


def test_the_reserve_is_a_term_of_the_headroom() -> None:
    sums = Sums(pool=128 * GIB, available=120 * GIB, resident=8 * GIB, ksm_saving=0, other=0, swap=64 * GIB,
                fault_in_rate=1.0 * MIB)  # fmt: skip
    small = capacity(sums, equal(8), replace(SETTINGS, storm_percent=0))
    large = capacity(sums, equal(8), replace(SETTINGS, storm_percent=60))
    assert small.model - large.model == large.spare - small.spare > 10 * GIB
