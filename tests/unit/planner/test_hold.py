"""What a hold does next: what was filled again and is not used is taken back; who wants his cache has it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memhint.objects.reclaim import SMALLEST, Hold, Reclaim, ReclaimState, Stop, released
from memhint.objects.units import MIB
from memhint.objects.verdict import Answer, Reason, Verdict
from memhint.planner.hold import FRUITLESS, MARGIN, PART, REFILLS, CacheLook, Step, after_go, next_step
from tests.unit import builders
from tests.unit.builders import NOW

GAVE = 800 * MIB
KEPT = 100 * MIB
USED = 60 * MIB
HOLDING = Reclaim(
    builders.reclaim_request(hold=600.0),
    state=ReclaimState.HOLDING,
    verdict=Verdict(Answer.APPLIED, Reason.NONE, "800 MiB reclaimed"),
    reclaimed=GAVE,
    stop=Stop.DONE,
    held=Hold(NOW, NOW + 600, KEPT, USED),
)


def look(cached: int, used: int = USED, pressure: float | None = 0.0) -> CacheLook:
    return CacheLook(cached, cached - used, pressure)


def test_what_is_filled_again_and_not_used_is_taken_back() -> None:
    assert next_step(HOLDING, look(KEPT + 300 * MIB)) == Step(again=300 * MIB)


@pytest.mark.parametrize(("grown", "again"), [(0, 0), (-50 * MIB, 0), (GAVE // PART, 0), (GAVE // PART + 1, 1)])
def test_less_than_the_margin_is_left(grown: int, again: int) -> None:
    found = next_step(HOLDING, look(KEPT + grown))
    assert found == Step(again=grown * again)


def test_the_margin_of_a_small_reclaim_is_what_any_cache_moves_by() -> None:
    small = replace(HOLDING, reclaimed=20 * MIB)
    assert next_step(small, look(KEPT + MARGIN)) == Step()
    assert next_step(small, look(KEPT + MARGIN + 1)).again == MARGIN + 1


def test_only_what_is_cold_is_asked_for() -> None:
    # 40 % of what came is in use: the rest is taken back.
    assert next_step(HOLDING, look(KEPT + 500 * MIB, USED + 200 * MIB)).again == 340 * MIB


@pytest.mark.parametrize(("used", "stop"), [(400, Stop.WANTED), (250, None)])
def test_a_guest_that_uses_most_of_it_again_keeps_it(used: int, stop: Stop | None) -> None:
    found = next_step(HOLDING, look(KEPT + 500 * MIB, USED + used * MIB))
    assert found.stop is stop
    if stop:
        assert (found.reason, found.again) == (Reason.IN_USE, 0)
        assert "400 of 500 MiB" in found.why


def test_a_guest_that_fills_it_again_and_again_is_left_alone() -> None:
    def filled(times: float) -> Reclaim:
        return replace(HOLDING, held=replace(HOLDING.held, again=int(times * GAVE)))

    assert next_step(filled(REFILLS - 0.5), look(KEPT + 300 * MIB)).again == 300 * MIB
    assert next_step(filled(REFILLS), look(KEPT + 300 * MIB)).stop is Stop.WANTED
    assert next_step(filled(REFILLS), look(KEPT)) == Step()


def test_it_is_never_asked_again_for_more_than_it_may_fill() -> None:
    def left(size: int) -> Reclaim:
        return replace(HOLDING, held=replace(HOLDING.held, again=REFILLS * GAVE - size))

    assert next_step(left(80 * MIB), look(KEPT + 300 * MIB)).again == 80 * MIB
    assert next_step(left(SMALLEST), look(KEPT + 300 * MIB)).again == SMALLEST
    assert next_step(left(SMALLEST - 1), look(KEPT + 300 * MIB)).stop is Stop.WANTED


def test_goes_in_a_row_that_bring_nothing_end_it() -> None:
    now, end = HOLDING, Step()
    for brought in (*[0] * (FRUITLESS - 1), SMALLEST, *[SMALLEST - 1] * (FRUITLESS - 1)):
        now, end = after_go(now, brought)
        assert end == Step()
    now, end = after_go(now, 0)
    assert (end.stop, now.held.fruitless) == (Stop.EXHAUSTED, FRUITLESS)
    assert "3 times in a row" in end.why
    assert after_go(replace(HOLDING, held=None), 0) == (replace(HOLDING, held=None), Step())


@pytest.mark.parametrize(
    ("pressure", "limit", "ends"), [(10.1, 10.0, True), (10.0, 10.0, False), (99.0, 100.0, False), (None, 10.0, False)]
)
def test_pressure_ends_it_whatever_the_cache_does(pressure: float | None, limit: float, ends: bool) -> None:
    holding = replace(HOLDING, request=replace(HOLDING.request, psi_limit=limit))
    found = next_step(holding, look(KEPT, pressure=pressure))
    assert (found.stop is Stop.PRESSURE) is ends
    assert (found.reason is Reason.GUEST_PRESSURE) is ends


def test_without_a_hold_nothing_is_done() -> None:
    assert next_step(replace(HOLDING, held=None), look(KEPT + GAVE)) == Step()


@given(st.integers(0, 2**40), st.integers(0, 2**40), st.none() | st.floats(0, 100), st.integers(0, 2**40))
def test_whatever_a_guest_says_no_more_is_asked_than_came_and_is_cold(
    cached: int, cold: int, pressure: float | None, again: int
) -> None:
    holding = replace(HOLDING, held=replace(HOLDING.held, again=again))
    found = next_step(holding, CacheLook(cached, min(cold, cached), pressure))
    assert 0 <= found.again <= max(0, min(cached - KEPT, cold, REFILLS * GAVE - again))
    assert not (found.again and found.stop)
    assert (found.stop is None) == (found.why == "")


def test_a_hold_that_ended_is_a_reclaim_that_is_done() -> None:
    over = released(HOLDING, Stop.DONE, NOW + 601)
    assert (over.state, over.ended, over.held.stop, over.stop) == (ReclaimState.DONE, NOW + 601, Stop.DONE, Stop.DONE)
    assert str(over.verdict) == "applied: 800 MiB reclaimed; held for 600 s, 0 MiB reclaimed again"
    early = released(HOLDING, Stop.PRESSURE, NOW + 40, Reason.GUEST_PRESSURE, "12 % passed 10 %")
    assert early.state is ReclaimState.DONE
    assert str(early.verdict) == (
        "applied (guest_pressure): 800 MiB reclaimed; held for 40 of 600 s, 0 MiB reclaimed again: 12 % passed 10 %"
    )
