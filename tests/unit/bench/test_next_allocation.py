"""What the bench of next allocations works out of what it measured."""

from __future__ import annotations

import pytest

from bench.harness.scale import Scale
from bench.suite import density, next_allocation
from bench.woken_guests import Woken, in_turns, slowest, usual


def test_a_guest_counts_by_the_middle_of_its_rounds() -> None:
    woken = [Woken([1.0, 9.0, 2.0]), Woken([3.0, 3.0, 3.0]), Woken([1.0, 1.0, 8.0])]
    assert (usual(woken), slowest(woken)) == (2.0, 3.0)


def test_both_targets_are_held_against_the_middle_guest_of_stock_reporting() -> None:
    stock = [Woken([2.0]), Woken([4.0]), Woken([2.0])]
    mine = [Woken([2.08]), Woken([2.08]), Woken([2.12])]
    found = next_allocation.targets({density.STOCK.name: stock, density.MEMHINT.name: mine})
    assert [one.measured for one in found] == pytest.approx([1.04, 1.06])
    assert [one.met for one in found] == [True, False]


def test_every_setup_has_its_turn_first_and_last() -> None:
    setups = (density.STOCK, density.FLAT_OUT, density.MEMHINT)
    assert tuple(in_turns(setups, 3)) == (*setups, *reversed(setups), *setups)


@pytest.mark.parametrize("scale", list(Scale))
def test_nobody_allocates_who_is_not_there_and_all_of_it_fits(scale: Scale) -> None:
    sizes, shape = next_allocation.sizes_of(scale)
    assert 1 <= shape.waking <= shape.guests
    # While one allocates the others lie idle, with a seventh of their memory at most.
    assert sizes.guest + (shape.guests - 1) * sizes.guest // 7 <= sizes.budget
