"""What a slower tier would give: half of DRAM for what is active, and no more tier than DRAM counts."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memhint.objects.active import ActiveMemory, ActiveSource, Idle
from memhint.objects.domain import DomainObservation
from memhint.objects.tier_sizing import Load, TierBound, load_of
from memhint.objects.units import GIB, MIB
from memhint.planner.tier_sizing import tier_gain, tier_sizing
from tests.unit import builders


def vm(rss: int, idle: int | None, error: int = 0, age: int = 60, swap: int = 0) -> DomainObservation:
    active = None
    if idle is not None:
        active = ActiveMemory(0.0, ActiveSource.DAMON, rss, (Idle(age, idle, 0.0),), 0.1, error)
    return builders.domain_observation(process=builders.process(rss=rss, swap=swap, ksm_zero=0), active=active)


def test_vms_that_rest_fit_twice_with_a_tier_of_the_size_of_dram() -> None:
    found = tier_sizing([vm(8 * GIB, 7 * GIB) for _ in range(8)], 64 * GIB)
    assert found is not None
    assert found.load == Load(64 * GIB, used=64 * GIB, active=8 * GIB, vms=8, read=8)
    quarter, half, whole = found.gains
    assert (quarter.tier, quarter.vms, quarter.without, quarter.bound) == (16 * GIB, 10.0, 8.0, TierBound.SIZE)
    assert half.vms == 12.0
    assert (whole.vms, whole.without) == (16.0, 8.0)


def test_what_is_larger_than_dram_counts_for_nothing() -> None:
    load = Load(64 * GIB, 64 * GIB, 8 * GIB, 8, 8)
    assert tier_gain(load, 1024 * GIB).vms == tier_gain(load, 64 * GIB).vms


def test_vms_that_use_half_of_dram_gain_nothing_and_lose_nothing() -> None:
    load = Load(64 * GIB, 64 * GIB, 32 * GIB, 8, 8)
    found = tier_gain(load, 64 * GIB)
    assert (found.vms, found.without, found.bound) == (8.0, 8.0, TierBound.ACTIVE)
    assert tier_gain(replace(load, active=60 * GIB), 64 * GIB) == found


def test_a_vm_of_which_nothing_is_known_counts_as_if_it_used_all() -> None:
    load = load_of([vm(8 * GIB, 8 * GIB), vm(4 * GIB, None), vm(2 * GIB, 2 * GIB, age=10)], 64 * GIB)
    assert load is not None
    assert (load.active, load.read, load.vms) == (6 * GIB, 1, 3)


def test_in_doubt_more_is_active_and_what_is_in_swap_rests() -> None:
    load = load_of([vm(8 * GIB, 6 * GIB, error=GIB, swap=2 * GIB)], 64 * GIB)
    assert load is not None
    assert (load.active, load.used) == (3 * GIB, 10 * GIB)


@pytest.mark.parametrize("seen", [[], [vm(GIB, None)], [builders.domain_observation(process=None)]])
def test_where_nothing_was_read_nothing_is_said(seen: list[DomainObservation]) -> None:
    assert load_of(seen, 64 * GIB) is None
    assert tier_sizing(seen, 64 * GIB, GIB) is None


@given(
    st.integers(MIB, 2**45),
    st.integers(1, 2**45),
    st.integers(0, 2**45),
    st.integers(0, 2**45),
)
def test_a_larger_tier_never_gives_less_and_never_more_than_twice(dram: int, used: int, active: int, tier: int) -> None:
    load = Load(dram, used, active, 10, 10)
    small, large = tier_gain(load, tier), tier_gain(load, tier + GIB)
    assert small.without <= small.vms <= large.vms <= 2 * small.without * (1 + 1e-9)
