"""Predictors: named behaviour of each, and what every one of them promises."""

from __future__ import annotations

import statistics
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memhint.objects.plan import PredictorName
from memhint.objects.units import GIB
from memhint.planner.past import SLOTS, Past, advance, slot_of
from memhint.planner.predictors import predictor_of
from memhint.planner.predictors.decaying_peak import decayed
from memhint.planner.predictors.n_sigma import n_sigma, share, sums
from memhint.planner.predictors.quantile import nearest_rank
from memhint.planner.settings import PlannerSettings
from memhint.sim.forecasts import forecast_of

WINDOW = 4800.0  # slots of 100 s
EVERY = [predictor_of(PlannerSettings(predictor=name, forecast_window=WINDOW)) for name in PredictorName]
each = pytest.mark.parametrize("predictor", EVERY, ids=lambda one: type(one).__name__)
uses = st.integers(0, 64 * GIB)


def followed(predictor, samples: list[tuple[float, int]]) -> Past:
    now, use = samples[0]
    past = predictor.first("1:1", use, now)
    for step, use in samples[1:]:
        now += step
        past = predictor.next(past, use, now)
    return past


samples = st.lists(st.tuples(st.floats(0, 500), uses), min_size=1, max_size=60)


@each
@given(samples=samples, room=st.integers(0, 64 * GIB))
def test_a_forecast_lies_between_use_and_assigned_and_the_past_stays_small(predictor, samples, room) -> None:
    past = followed(predictor, samples)
    use = samples[-1][1]
    (forecast,) = predictor.forecast([use], [use + room], [past])
    assert use <= forecast <= use + room
    assert len(past.slots) <= SLOTS
    assert past.highest == max(one for _, one in samples)


@each
@given(use=uses, steps=st.lists(st.floats(0, 500), max_size=60))
def test_a_vm_that_never_moves_is_forecast_to_stay(predictor, use: int, steps: list[float]) -> None:
    past = followed(predictor, [(0.0, use), *((step, use) for step in steps)])
    assert predictor.forecast([use], [use + GIB], [past]) == [use]


@each
@given(samples=samples, more=st.integers(0, 64 * GIB))
def test_a_higher_sample_now_never_lowers_the_forecast(predictor, samples, more: int) -> None:
    *before, (step, use) = samples
    higher = [*before, (step, use + more)]
    found = [predictor.forecast([one[-1][1]], [256 * GIB], [followed(predictor, one)])[0] for one in (samples, higher)]
    if type(predictor).__name__ == "NSigma":
        # A higher low point narrows the deviation: what never falls is the floor, not the forecast.
        assert found[1] >= use + more
    else:
        assert found[1] >= found[0]


@each
def test_nobody_is_forecast_nothing(predictor) -> None:
    assert predictor.forecast([], [], []) == []


def test_the_peak_decays_by_half() -> None:
    assert decayed(3.0, 1, 600.0, 600.0) == 2.0
    assert decayed(3.0, 5, 600.0, 600.0) == 5.0
    assert decayed(3.0, 1, -1.0, 600.0) == 3.0


def test_a_slot_keeps_its_largest_and_missed_slots_repeat_the_one_before() -> None:
    assert advance((), 0, 7, 5) == (5,)
    assert advance((5,), 7, 7, 3) == (5,)
    assert advance((5,), 7, 7, 9) == (9,)
    assert advance((5,), 7, 10, 1) == (5, 5, 5, 1)
    assert advance((5,), 7, 10**9, 1) == (*((5,) * (SLOTS - 1)), 1)
    assert (slot_of(0.0, WINDOW), slot_of(99.9, WINDOW), slot_of(100.0, WINDOW)) == (0, 0, 1)


@given(st.lists(st.integers(0, 100), min_size=1, max_size=60), st.floats(0.01, 1))
def test_the_nearest_rank_is_a_value_that_enough_lie_at_or_below(values: list[int], q: float) -> None:
    found = nearest_rank(values, q)
    assert found in values
    assert sum(value <= found for value in values) >= q * len(values) - 1e-9


def test_a_quantile_forgets_what_left_the_window_and_forgives_a_short_peak() -> None:
    predictor = predictor_of(PlannerSettings(predictor=PredictorName.QUANTILE, forecast_window=WINDOW, quantile=0.9))
    calm = [(100.0, 1 * GIB)] * (SLOTS - 1)
    peak = followed(predictor, [(0.0, 8 * GIB), *calm])
    assert predictor.forecast([1 * GIB], [8 * GIB], [peak]) == [1 * GIB]
    busy = followed(predictor, [(0.0, 8 * GIB), *([(100.0, 8 * GIB)] * 9), *calm[10:]])
    assert predictor.forecast([1 * GIB], [8 * GIB], [busy]) == [8 * GIB]
    gone = followed(predictor, [(0.0, 8 * GIB), *([(100.0, 8 * GIB)] * 9), *calm])
    assert predictor.forecast([1 * GIB], [8 * GIB], [gone]) == [1 * GIB]


def test_n_sigma_knows_whether_vms_peak_together() -> None:
    predictor = predictor_of(PlannerSettings(predictor=PredictorName.N_SIGMA, forecast_window=WINDOW, sigmas=2))

    def total(*phases: int) -> int:
        waves = [[(100.0, (4 if (slot + phase) % 2 else 1) * GIB) for slot in range(SLOTS)] for phase in phases]
        pasts = [followed(predictor, wave) for wave in waves]
        return sum(predictor.forecast([1 * GIB] * len(pasts), [8 * GIB] * len(pasts), pasts))

    assert total(0, 1) == 5 * GIB  # one is always up: the sum never moves
    assert total(0, 0) == 11 * GIB  # a mean of 5 and twice a deviation of 3


@given(st.lists(st.integers(0, 10**12), min_size=1, max_size=48), st.floats(0, 10), uses)
def test_n_sigma_is_mean_and_deviations_and_never_below_the_present(totals, sigmas: float, present: int) -> None:
    found = n_sigma(totals, sigmas, present)
    assert found >= present
    assert found == pytest.approx(max(present, statistics.fmean(totals) + sigmas * statistics.pstdev(totals)), abs=1)


def test_a_young_vm_counts_with_its_largest_where_it_was_not_yet() -> None:
    assert sums([(1, 2, 3), (5, 4)]) == [6, 7, 7]
    assert sums([]) == []


@given(st.lists(st.tuples(uses, uses), min_size=1, max_size=20), st.floats(0, 2e12))
def test_shares_fill_the_room_in_proportion_and_lose_nothing(pairs, total: float) -> None:
    now, most = [use for use, _ in pairs], [use + room for use, room in pairs]
    parts = share(total, now, most)
    assert all(use <= part <= top for use, part, top in zip(now, parts, most, strict=True))
    assert sum(parts) >= min(total, sum(most)) - 1e-3
    assert sum(parts) <= max(total, sum(now)) + len(pairs) + 1


def test_each_says_what_its_forecast_is() -> None:
    assert [one.words for one in EVERY] == [
        "decaying peak of its footprint", "quantile of its footprint", "its share of the host's N-sigma"
    ]  # fmt: skip


@pytest.mark.parametrize("choose", [predictor_of, forecast_of])
def test_one_that_is_not_known_is_taken_for_no_other(choose: Callable[[PlannerSettings], object]) -> None:
    with pytest.raises(AssertionError, match="crystal_ball"):
        choose(PlannerSettings(predictor="crystal_ball"))  # type: ignore[arg-type]
