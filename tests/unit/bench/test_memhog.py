"""What the memhog bench works out of what it measured."""

from __future__ import annotations

import pytest

from bench.harness.scale import Scale
from bench.hungry_guests import Turns, third_over_first
from bench.suite import memhog
from memhint.objects.units import GIB, MIB


def runs(mine: float, swapped: int = 0, unmodified: int = GIB) -> dict[str, list[Turns]]:
    return {
        memhog.NOTHING.name: [Turns((2.0, 3.0, 20.0), unmodified)],
        memhog.MEMHINT.name: [Turns((2.0, 2.0, mine), swapped), Turns((4.0, 2.0, 1.0), 0), Turns((2.0, 2.0, mine), 0)],
    }


def test_the_ratio_is_that_of_the_medians() -> None:
    found = runs(3.0)[memhog.MEMHINT.name]
    assert third_over_first(found) == pytest.approx(1.5)
    assert found[1].ratio == pytest.approx(0.25)


def test_targets() -> None:
    assert [one.met for one in memhog.targets(runs(2.0))] == [True, True]
    assert [one.met for one in memhog.targets(runs(2.1, 2 * MIB))] == [False, False]


def test_notes_say_when_nothing_was_short_and_when_it_is_noise() -> None:
    assert any("did not swap" in note for note in memhog.notes(runs(2.0, unmodified=0)))
    assert any("within the spread" in note for note in memhog.notes(runs(2.1)))
    assert not any("within the spread" in note for note in memhog.notes(runs(2.0)))


@pytest.mark.parametrize("scale", list(Scale))
def test_three_guests_are_larger_than_their_host(scale: Scale) -> None:
    sizes, count = memhog.sizes_of(scale)
    assert sizes.budget < 3 * sizes.guest <= sizes.budget * 6 // 5
    assert count >= 1
    assert memhog.sizes_of(Scale.SEED)[0].guest == 6 * GIB
