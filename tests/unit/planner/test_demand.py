"""Demand: a new VM counts in full, an observed one by its decaying peak, an unseen one in full again."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memhint.objects.domain import DomainState
from memhint.objects.exclusion import Exclusion
from memhint.objects.plan import Demand, DemandReason, PredictorName
from memhint.objects.policy import Origin, effective
from memhint.objects.units import GIB, MIB
from memhint.planner.demand import AWAY, MOST_AWAY, demands_of, remember
from memhint.planner.growth import column_of, row_of, table_of
from memhint.planner.past import Past
from memhint.planner.predictors import predictor_of
from memhint.planner.settings import PlannerSettings
from tests.unit import builders

SETTINGS = PlannerSettings(overhead=128 * MIB, new_vm_decay=600.0, peak_half_life=600.0)
FULL = 4 * GIB + 128 * MIB


def running(rss: int, **facts: object):
    return builders.domain_observation(
        process=builders.process(rss=rss, swap=0, ksm_zero=0), facts=builders.facts(memory=4 * GIB, **facts)
    )


def seen(domain, at: float, past=None):
    return remember(past or {}, [domain], at, predictor_of(SETTINGS))


def demand_of(domain, past: Past | None, now: float, settings: PlannerSettings, **policy: str) -> Demand:
    known = {} if past is None else {domain.uuid: past}
    policies = {domain.uuid: effective({Origin.OPERATOR: policy})}
    return demands_of([domain], policies, known, now, settings, predictor_of(settings))[0]


def test_a_new_vm_counts_in_full_and_decays_to_its_footprint() -> None:
    domain = running(1 * GIB)
    past = seen(domain, 0.0)
    demands = [demand_of(domain, past[domain.uuid], now, SETTINGS) for now in (0.0, 300.0, 600.0)]
    assert demands[0].demand == FULL
    assert 1 * GIB < demands[1].demand < FULL
    assert demands[2].demand == 1 * GIB
    assert [one.reason for one in demands] == [DemandReason.NEW, DemandReason.NEW, DemandReason.FORECAST]


def test_no_vm_counts_with_less_than_those_like_it_came_to() -> None:
    day, share = 86400.0, column_of(1 * GIB, FULL)
    table = table_of(1, [{(row_of(day), share): (3, 3 * 60)}] * 4)
    domain = running(1 * GIB)
    past = seen(domain, 0.0)[domain.uuid]

    def demand(now: float, settings: PlannerSettings = SETTINGS, **policy: str) -> Demand:
        policies, known = {domain.uuid: effective({Origin.OPERATOR: policy})}, {domain.uuid: past}
        return demands_of([domain], policies, known, now, settings, predictor_of(settings), 1, table)[0]

    like = demand(day)
    assert (like.demand, like.growth, like.forecast) == (FULL * 60 // 100, FULL * 60 // 100, 1 * GIB)
    assert like.reason is DemandReason.GROWTH
    assert like.detail == "VMs 24 h old that used 25 % came to 60 % within a week, n = 12"
    # Of younger ones nothing is known, and an operator may wish for more.
    assert (demand(day - 1).demand, demand(day - 1).reason) == (1 * GIB, DemandReason.FORECAST)
    more = demand(day, min_mb="3000")
    assert (more.demand, more.reason) == (3128 * MIB, DemandReason.MINIMUM)
    assert demand(day, replace(SETTINGS, growth_floor=False)).demand == 1 * GIB
    new = demand(day, replace(SETTINGS, new_vm_decay=2 * day))
    assert (new.demand, new.reason) == (FULL - (FULL - like.demand) // 2 + 1, DemandReason.NEW)
    assert demand(day, **{"class": "guaranteed"}).demand == FULL


DAY = 86400.0
YOUNG, OLD = 10, 70
AT_A_QUARTER = column_of(1 * GIB, FULL)
AS_THEY_AGE = table_of(1, [{(0, AT_A_QUARTER): (3, 3 * YOUNG), (row_of(4 * DAY), AT_A_QUARTER): (3, 3 * OLD)}] * 4)
"""VMs that use a quarter stay so at first, and come to more once they are four days old."""


def floor_of(domain, past: Past, now: float, settings: PlannerSettings) -> int | None:
    policies = {domain.uuid: effective({Origin.OPERATOR: {}})}
    known = {domain.uuid: past}
    return demands_of([domain], policies, known, now, settings, predictor_of(settings), 1, AS_THEY_AGE)[0].growth


@pytest.mark.parametrize("name", PredictorName)
def test_a_vm_is_as_old_as_it_is_however_often_it_was_rebooted_and_plugged(name: PredictorName) -> None:
    """The fleet's VMs told by their own age: by that of its process a VM would count with what young ones came to."""
    settings = replace(SETTINGS, predictor=name)
    predictor, runs, past = predictor_of(settings), running(1 * GIB), {}
    again = replace(runs, process=builders.process(pid=9999, rss=1 * GIB, swap=0, ksm_zero=0))
    more = replace(again, facts=replace(again.facts, memory=4 * GIB + 64 * MIB))
    floors = []
    for now, domain in ((0.0, runs), (DAY, runs), (5 * DAY, runs), (5 * DAY + 60, again), (5 * DAY + 120, more)):
        past = remember(past, [domain], now, predictor)
        floors.append(floor_of(domain, past[domain.uuid], now, settings))
    assert floors[:4] == [FULL * share // 100 for share in (YOUNG, YOUNG, OLD, OLD)]
    assert floors[4] == (FULL + 64 * MIB) * OLD // 100
    assert past[runs.uuid].first_seen == 5 * DAY + 120, "it counts in full at first all the same"


def test_a_past_of_before_a_vm_s_age_was_remembered_is_as_old_as_its_process() -> None:
    past = Past("1", 100.0, 1.0, 200.0, 1)
    assert past.since == 100.0


def test_the_peak_decays_by_half_and_jumps_up_at_once() -> None:
    past = seen(running(3 * GIB), 0.0)
    past = seen(running(1 * GIB), 600.0, past)
    assert past[builders.WEB].peak == pytest.approx(2 * GIB)
    past = seen(running(4 * GIB), 601.0, past)
    assert past[builders.WEB].peak == 4 * GIB


def test_a_restarted_qemu_is_a_new_vm() -> None:
    past = seen(running(1 * GIB), 0.0)
    again = replace(running(1 * GIB), process=builders.process(pid=9999, rss=1 * GIB, swap=0, ksm_zero=0))
    assert seen(again, 1000.0, past)[again.uuid].first_seen == 1000.0


def test_one_missed_reading_is_no_new_life() -> None:
    past = seen(running(1 * GIB), 0.0)
    missed = replace(running(1 * GIB), process=None)
    assert seen(missed, 10.0, past) == past
    assert demand_of(missed, past[missed.uuid], 10.0, SETTINGS).reason is DemandReason.UNOBSERVED
    assert demand_of(missed, past[missed.uuid], 10.0, SETTINGS).demand == FULL


@pytest.mark.parametrize("state", [DomainState.SHUTOFF, DomainState.PAUSED, DomainState.INCOMING, DomainState.OTHER])
def test_what_does_not_run_counts_in_full(state: DomainState) -> None:
    domain = replace(running(1 * GIB), state=state)
    past = seen(domain, 0.0)
    assert demand_of(domain, past.get(domain.uuid), 10_000.0, SETTINGS).demand == FULL


@pytest.mark.parametrize("pinned", ["locked", "vfio", "confidential"])
def test_memory_that_cannot_come_back_counts_in_full_and_says_why(pinned: str) -> None:
    domain = running(1 * GIB, **{pinned: True})
    found = demand_of(domain, seen(domain, 0.0)[domain.uuid], 10_000.0, SETTINGS)
    assert (found.demand, found.reason) == (FULL, DemandReason.EXCLUDED)
    assert found.detail


@pytest.mark.parametrize(
    ("policy", "reason"),
    [({"class": "guaranteed"}, DemandReason.GUARANTEED), ({"overcommit": "deny"}, DemandReason.EXCLUDED)],
)
def test_who_opts_out_counts_in_full(policy: dict[str, str], reason: DemandReason) -> None:
    domain = running(1 * GIB)
    found = demand_of(domain, seen(domain, 0.0)[domain.uuid], 10_000.0, SETTINGS, **policy)
    assert (found.demand, found.reason) == (FULL, reason)


def test_best_effort_counts_by_its_forecast_and_keeps_its_minimum() -> None:
    domain = running(1 * GIB)
    past = seen(domain, 0.0)[domain.uuid]
    found = demand_of(domain, past, 10_000.0, SETTINGS, **{"class": "best-effort", "min_mb": "2048"})
    assert (found.demand, found.forecast, found.reason) == (2 * GIB + 128 * MIB, 1 * GIB, DemandReason.MINIMUM)
    beyond = demand_of(domain, past, 10_000.0, SETTINGS, min_mb="999999")
    assert beyond.demand == FULL


def test_a_vm_without_a_balloon_or_with_windows_is_excluded_and_says_both() -> None:
    domain = running(1 * GIB, balloon=False, os="windows")
    found = demand_of(domain, seen(domain, 0.0)[domain.uuid], 10_000.0, SETTINGS)
    assert (found.demand, found.reason) == (FULL, DemandReason.EXCLUDED)
    assert [one.reason for one in found.excluded] == [Exclusion.NO_BALLOON, Exclusion.UNSUPPORTED]


def test_a_vm_on_huge_pages_is_outside() -> None:
    domain = running(100 * MIB, hugepages=True, hugetlb=4 * GIB)
    assert demand_of(domain, None, 0.0, SETTINGS).reason is DemandReason.OUTSIDE


def test_of_a_vm_partly_on_huge_pages_the_rest_counts_in_full() -> None:
    domain = running(1 * GIB, hugepages=True, hugetlb=1 * GIB)
    found = demand_of(domain, seen(domain, 0.0)[domain.uuid], 10_000.0, SETTINGS)
    assert (found.assigned, found.demand, found.reason) == (FULL - GIB, FULL - GIB, DemandReason.EXCLUDED)


def test_a_qemu_that_fell_back_to_ordinary_pages_counts_in_full() -> None:
    domain = running(1 * GIB, hugepages=True, hugetlb=4 * GIB)
    found = demand_of(domain, seen(domain, 0.0)[domain.uuid], 10_000.0, SETTINGS)
    assert (found.assigned, found.demand, found.reason) == (FULL, FULL, DemandReason.EXCLUDED)


def test_huge_pages_that_nobody_can_count_take_nothing_out_of_the_sums() -> None:
    domain = running(1 * GIB, hugepages=True, hugetlb=0)
    found = demand_of(domain, seen(domain, 0.0)[domain.uuid], 10_000.0, SETTINGS)
    assert (found.demand, found.reason) == (FULL, DemandReason.EXCLUDED)


def test_an_overhead_beyond_the_estimate_is_assigned_too() -> None:
    domain = running(5 * GIB)
    found = demand_of(domain, seen(domain, 0.0)[domain.uuid], 10_000.0, SETTINGS)
    assert found.assigned == found.demand == 5 * GIB


@given(st.lists(st.tuples(st.floats(0.1, 1000), st.integers(0, 8 * GIB)), min_size=1, max_size=20))
def test_demand_lies_between_footprint_and_assigned(steps: list[tuple[float, int]]) -> None:
    past: dict[str, Past] = {}
    now = 0.0
    for step, rss in steps:
        now += step
        domain = running(rss)
        past = seen(domain, now, past)
        found = demand_of(domain, past[domain.uuid], now, SETTINGS)
        assert found.footprint <= found.demand <= found.assigned


@given(st.integers(), st.integers(), st.integers())
def test_what_a_guest_says_changes_nothing(total: int, free: int, unreported: int) -> None:
    honest = running(1 * GIB)
    liar = replace(honest, guest=builders.guest_memory(total=total, free=free, unreported=unreported))
    past = seen(honest, 0.0)
    assert demand_of(liar, past[liar.uuid], 50.0, SETTINGS) == demand_of(honest, past[honest.uuid], 50.0, SETTINGS)


OFFICE_DAY = (9.0, 17.0)


def by_day(now: float) -> int:
    """What a VM of 8 GiB uses that is busy in office hours, Monday to Friday."""
    busy = now // 86400 % 7 < 5 and OFFICE_DAY[0] <= now % 86400 / 3600 < OFFICE_DAY[1]
    return 7 * GIB if busy else 1 * GIB


@pytest.mark.parametrize("name", PredictorName)
@pytest.mark.parametrize("moment", [86400 + 8.9 * 3600, 7 * 86400 + 8.9 * 3600], ids=["before nine", "on Monday"])
def test_neither_a_night_nor_a_weekend_makes_a_working_day_forgotten(name: PredictorName, moment: float) -> None:
    settings = PlannerSettings(predictor=name)
    predictor, past, now = predictor_of(settings), None, 0.0
    while now < moment:
        use = by_day(now)
        past = predictor.first("one", use, now) if past is None else predictor.next(past, use, now)
        now += 600.0
    assert past is not None
    (forecast,) = predictor.forecast([by_day(moment)], [8 * GIB], [past])
    assert by_day(moment) == 1 * GIB
    assert forecast > 6 * GIB


@pytest.mark.parametrize("name", PredictorName)
def test_another_qemu_of_the_same_vm_counts_in_full_and_then_by_what_the_vm_has_used_before(
    name: PredictorName,
) -> None:
    settings = PlannerSettings(predictor=name, overhead=128 * MIB)
    predictor = predictor_of(settings)
    domain, past = running(3 * GIB), {}
    for now in (0.0, 1000.0):
        past = remember(past, [domain], now, predictor)
    again = replace(running(1 * GIB), process=builders.process(pid=9999, rss=1 * GIB, swap=0, ksm_zero=0))
    past = remember(past, [again], 1010.0, predictor)
    first = demand_of(again, past[again.uuid], 1010.0, settings)
    assert (first.demand, first.reason) == (FULL, DemandReason.NEW)
    past = remember(past, [again], 1700.0, predictor)
    later = demand_of(again, past[again.uuid], 1700.0, settings)
    assert later.reason is DemandReason.FORECAST
    assert later.demand > 2.9 * GIB
    assert past[again.uuid].highest == 3 * GIB


@pytest.mark.parametrize("name", PredictorName)
@pytest.mark.parametrize("state", [DomainState.PAUSED, DomainState.INCOMING])
def test_a_vm_is_new_when_it_first_runs_however_long_its_process_waited(
    name: PredictorName, state: DomainState
) -> None:
    """Started paused, or arriving for an hour: what it did not use until then says nothing."""
    settings = replace(SETTINGS, predictor=name)
    predictor = predictor_of(settings)
    started, past = replace(running(20 * MIB), state=state), {}
    for now in (0.0, 10.0, 3600.0):
        past = remember(past, [started], now, predictor)
        assert demand_of(started, past[started.uuid], now, settings).demand == FULL
    runs = running(20 * MIB)
    for now, least in ((3610.0, FULL - 100 * MIB), (3900.0, 2 * GIB)):
        past = remember(past, [runs], now, predictor)
        found = demand_of(runs, past[runs.uuid], now, settings)
        assert (found.reason, found.demand >= least) == (DemandReason.NEW, True)
    past = remember(past, [runs], 4300.0, predictor)
    assert demand_of(runs, past[runs.uuid], 4300.0, settings).reason is DemandReason.FORECAST


@pytest.mark.parametrize("name", PredictorName)
def test_a_vm_to_which_memory_is_plugged_in_counts_in_full_at_first(name: PredictorName) -> None:
    settings = replace(SETTINGS, predictor=name)
    predictor, runs, past = predictor_of(settings), running(1 * GIB), {}
    more = replace(runs, facts=replace(runs.facts, memory=8 * GIB))
    for now in (0.0, 1000.0):
        past = remember(past, [runs], now, predictor)
    for now, domain, reason in (
        (1010.0, more, DemandReason.NEW),
        (1310.0, more, DemandReason.NEW),
        (1700.0, more, DemandReason.FORECAST),
        (1710.0, runs, DemandReason.FORECAST),  # plugged out again: what it used it may use still
    ):
        past = remember(past, [domain], now, predictor)
        found = demand_of(domain, past[domain.uuid], now, settings)
        assert found.reason is reason, now
        if now == 1010.0:
            assert found.demand == FULL + 4 * GIB


@pytest.mark.parametrize("name", PredictorName)
def test_a_vm_that_ran_and_is_paused_for_a_while_is_not_new(name: PredictorName) -> None:
    settings = replace(SETTINGS, predictor=name)
    predictor, runs, past = predictor_of(settings), running(1 * GIB), {}
    for now in (0.0, 10.0, 700.0):
        past = remember(past, [runs], now, predictor)
    past = remember(past, [replace(runs, state=DomainState.PAUSED)], 710.0, predictor)
    past = remember(past, [runs], 720.0, predictor)
    assert past[runs.uuid].first_seen == 0.0
    assert demand_of(runs, past[runs.uuid], 720.0, settings).reason is DemandReason.FORECAST


@pytest.mark.parametrize("name", PredictorName)
def test_a_vm_that_a_hard_reboot_defines_anew_counts_by_what_it_used_before(name: PredictorName) -> None:
    settings = replace(SETTINGS, predictor=name, peak_half_life=14 * 86400.0)
    predictor = predictor_of(settings)
    past: dict[str, Past] = {}
    for look in range(100):  # within one slot of a window
        past = remember(past, [running(3 * GIB)], 120.0 * look, predictor)
    for at in (12_000.0, 12_010.0, 12_500.0):
        past = remember(past, [], at, predictor)
    idle = running(1 * GIB)
    again = replace(idle, process=replace(idle.process, pid=idle.process.pid + 1))
    past = remember(past, [again], 12_510.0, predictor)
    assert past[again.uuid].first_seen == 12_510.0
    assert demand_of(again, past[again.uuid], 12_510.0, settings).demand == FULL
    past = remember(past, [again], 13_200.0, predictor)
    assert demand_of(again, past[again.uuid], 13_200.0, settings).demand >= 2.9 * GIB


def test_what_is_remembered_of_vms_that_left_is_bounded_in_time_and_number() -> None:
    predictor = predictor_of(SETTINGS)
    left = {str(at): Past("1", 0.0, 1.0, float(at), 1) for at in range(MOST_AWAY + 10)}
    assert remember(left, [], MOST_AWAY + 10.0, predictor).keys() == {str(at) for at in range(10, MOST_AWAY + 10)}
    assert remember(left, [], AWAY + 20.0, predictor).keys() == {str(at) for at in range(20, MOST_AWAY + 10)}
    assert not remember(left, [], MOST_AWAY + 10 + AWAY, predictor)
