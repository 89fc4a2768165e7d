"""Which levers take memory in pieces smaller than a huge page."""

from __future__ import annotations

from dataclasses import replace

import pytest

from memhint.objects.lever import LeverName
from memhint.objects.relief import Relief
from memhint.objects.tuning import Tuning
from memhint.planner.pieces import pieces
from tests.unit.agent.views import asking


@pytest.mark.parametrize(
    ("relief", "found"),
    [
        (Relief(), ()),
        (Relief(tuning={"a": Tuning(order=9, delay_ms=200)}), ()),
        (Relief(tuning={"a": Tuning(order=4)}), (LeverName.REPORTING,)),
        (Relief(recycler={"a": 1}, tuning={"a": Tuning(order=0)}), (LeverName.REPORTING, LeverName.RECYCLER)),
    ],
)
def test_what_asks_for_pieces_is_named(relief: Relief, found: tuple[LeverName, ...]) -> None:
    made = asking()
    assert pieces(relief, made.of_host) == found


def test_merging_is_one_of_them() -> None:
    made = asking()
    merging = replace(made.of_host[LeverName.DEDUP], members=frozenset({"a", "b"}))
    assert pieces(made.plan.relief, {LeverName.DEDUP: merging}) == (LeverName.DEDUP,)
