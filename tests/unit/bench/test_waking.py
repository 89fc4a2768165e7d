"""How long a VM that wakes took, against when it was left alone."""

from __future__ import annotations

import pytest

from bench.harness.scale import Scale
from bench.sleeping_guest import Wake
from bench.suite.waking import JUDGED, SHAPES, targets, told

FOUND = {
    1: [Wake(1.0, 7.0, 2.2, 35000, 600)],
    JUDGED: [Wake(4.0, 10.0, 4.4, 36000, 300), Wake(5.0, 12.0, 7.0, 36000, 300)],
}


def test_the_middle_of_the_rounds_of_the_guest_that_is_judged_decides() -> None:
    (verdict,) = targets(FOUND)
    assert verdict.measured == pytest.approx(1.25)  # of 1.1 and 1.4
    assert verdict.met


def test_each_row_says_how_fast_the_guest_uses_its_memory_when_it_is_left_alone() -> None:
    (table,) = told(Scale.SHORT, SHAPES[Scale.SHORT], FOUND).tables
    once, judged = table.arms
    assert [one.name for one in table.arms] == ["it reads each word once", f"{JUDGED} times"]
    assert once.figures["speed"].median == 1024
    assert (once.figures["swap"].median, once.figures["ahead"].median) == (7.0, 2.2)
    assert judged.figures["speed"].highest == 256
