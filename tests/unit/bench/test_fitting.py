"""Whether a host was large enough, of what was seen of it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from bench.filled_host import NO_SWAP
from bench.fitting import MemorySample, too_small
from memhint.objects.units import GIB, MIB

BUDGET = 2 * GIB


def test_what_fits_without_swap_fits() -> None:
    assert too_small([], BUDGET) is None
    assert too_small([MemorySample(BUDGET - MIB, 0), MemorySample(BUDGET, 0)], BUDGET) is None


def test_what_went_to_swap_before_does_not_count_as_room() -> None:
    """33 guests had 11 MiB more in use than the host, 16 had 146 MiB more; neither wrote anything to swap meanwhile."""
    for over in (11 * MIB, 146 * MIB):
        why = too_small([MemorySample(BUDGET - MIB, 200 * MIB), MemorySample(BUDGET + over, 200 * MIB)], BUDGET)
        assert why is not None
        assert f"{over // MIB}.0 MiB more" in why
        assert "200 MiB in swap" in why


def test_what_rests_in_swap_is_no_fault_where_all_would_fit() -> None:
    assert too_small([MemorySample(BUDGET - MIB, 200 * MIB), MemorySample(BUDGET - MIB, 190 * MIB)], BUDGET) is None


def test_what_goes_to_swap_is_held_against_the_least_that_was_there() -> None:
    looks = [MemorySample(GIB, 50 * MIB), MemorySample(GIB, 20 * MIB), MemorySample(GIB, 23 * MIB)]
    assert too_small(looks, BUDGET) == "3 MiB went to swap"
    assert too_small(looks[:2], BUDGET) is None


@given(st.lists(st.tuples(st.integers(0, 3 * GIB), st.integers(0, GIB)), max_size=20), st.integers(0, 3 * GIB))
def test_a_host_that_was_too_small_stays_so_with_more_looks_and_with_less_memory(
    seen: list[tuple[int, int]], budget: int
) -> None:
    looks = [MemorySample(*one) for one in seen]
    verdicts = [too_small(looks[:end], budget) is not None for end in range(len(looks) + 1)]
    assert verdicts == sorted(verdicts)
    if too_small(looks, budget) is not None:
        assert too_small(looks, budget // 2) is not None
    else:
        assert all(look.in_use <= budget and look.swap <= looks[0].swap + NO_SWAP for look in looks)
