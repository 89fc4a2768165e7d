"""Generated fleets have the moments that were published, and one seed makes one fleet."""

import numpy as np
import pytest

from memhint.objects.units import GIB
from memhint.sim import published
from memhint.sim.fleet import HostShape
from memhint.sim.generate import ROWS, Workload, generate, lifetimes, seed_workload, sizes

DAY = 86400.0
HOUR = 3600.0


def fleet(
    kind: Workload = Workload.DIURNAL,
    hosts: int = 20,
    days: float = 8,
    step: float = 900.0,
    seed: int = 5,
    **more: float,
):
    return generate(kind, hosts=hosts, days=days, step=step, seed=seed, **more)


def test_seven_of_ten_vms_are_smaller_than_4_gb() -> None:
    assert sum(weight for _, weight in published.SIZES) == pytest.approx(1.0)
    drawn = sizes(100_000, np.random.default_rng(1))
    assert 0.70 <= (drawn < 4 * GIB).mean() <= 0.74


def test_nine_of_ten_vms_live_for_less_than_a_day_and_the_mean_is_the_traces() -> None:
    drawn = lifetimes(400_000, np.random.default_rng(1))
    assert (drawn < DAY).mean() == pytest.approx(published.SHORT_SHARE, abs=0.005)
    assert drawn.mean() == pytest.approx(published.MEAN_LIFETIME, rel=0.02)


def test_half_of_vms_touch_half_of_their_memory_and_four_fifths_less_than_70_percent() -> None:
    made = fleet()
    peak = (made.offset + made.scale) / made.memory
    assert np.median(peak) == pytest.approx(0.5, abs=0.02)
    assert (peak < 0.7).mean() == pytest.approx(0.8, abs=0.02)
    assert peak.min() >= published.PEAK_LEAST - 1e-9


@pytest.mark.parametrize("offered", [1.0, 3.0])
def test_as_many_vms_ask_as_are_offered(offered: float) -> None:
    made = fleet(offered=offered, days=20)
    mean_size = sum(size * weight for size, weight in published.SIZES)
    present = offered * made.hosts * made.shape.pool / mean_size
    later = made.vms - present
    assert later == pytest.approx(present * 20 * DAY / published.MEAN_LIFETIME, rel=0.1)
    # Those who would be there at one moment, if all were admitted
    at = made.steps - 10
    there = ((made.arrival <= at) & (made.departure > at)).sum()
    assert there == pytest.approx(present, rel=0.15)


def test_arrivals_are_in_order_and_follow_the_day() -> None:
    made = fleet(hosts=200)
    assert (np.diff(made.arrival) >= 0).all()
    assert (made.departure > made.arrival).all()
    second = made.arrival * made.step
    later = second[second > published.FILL]  # the first day has those who were there before
    hour = later % DAY / HOUR
    assert ((hour >= 12) & (hour < 16)).sum() > 1.5 * ((hour >= 0) & (hour < 4)).sum()


def test_days_are_busy_and_nights_and_weekends_are_quiet() -> None:
    made = fleet(days=7)
    course = made.levels.mean(axis=1).reshape(7, -1)
    hours = np.arange(course.shape[1]) * made.step / HOUR
    afternoon, night = (hours >= 13) & (hours < 15), (hours >= 1) & (hours < 3)
    assert course[:5, afternoon].mean() > 2 * course[:5, night].mean()
    assert course[5:, afternoon].mean() < 0.8 * course[:5, afternoon].mean()
    assert made.levels.min() >= 0.0


def test_a_burst_is_as_frequent_and_long_as_written() -> None:
    made = fleet(Workload.BURSTY, days=10, step=60.0, hosts=1)
    lasts = published.BURST_MEDIAN * np.exp(published.BURST_SIGMA**2 / 2)
    share = lasts / (lasts + published.BURST_EVERY)
    assert made.levels.mean() == pytest.approx(share, rel=0.1)
    assert set(np.unique(made.levels)) == {0.0, 1.0}


def test_a_storm_comes_once_a_week_and_takes_half_of_the_vms() -> None:
    made = fleet(Workload.STORM, days=30)
    begins = np.flatnonzero(np.diff(made.storms.astype(int)) == 1)
    assert len(begins) == 4
    assert made.storms.sum() * made.step == 4 * published.STORM_SECONDS
    assert made.stormy.mean() == pytest.approx(published.STORM_SHARE, abs=0.05)


@pytest.mark.parametrize("arm", published.SEED_VMS)
def test_the_seeds_workload_uses_what_the_seed_measured(arm: str) -> None:
    made = seed_workload(
        arm, hosts=1, steps=2880, step=published.SEED_STEP, rng=np.random.default_rng(1), shape=HostShape()
    )
    assert made.vms == published.SEED_VMS[arm]
    use = made.offset + made.scale * made.levels[:, made.row] + made.own
    used = published.SEED_RETURNED_USED if arm == "returned" else published.SEED_USED
    assert use.sum(axis=1).mean() == pytest.approx(used, rel=0.05)
    assert use.max() <= made.memory[0]


@pytest.mark.parametrize("kind", Workload)
def test_one_seed_makes_one_fleet(kind: Workload) -> None:
    first, second, other = fleet(kind, seed=1, hosts=2), fleet(kind, seed=1, hosts=2), fleet(kind, seed=2, hosts=2)
    for name in ("arrival", "departure", "memory", "offset", "scale", "row", "levels", "stormy"):
        assert np.array_equal(getattr(first, name), getattr(second, name)), name
    assert not np.array_equal(first.row, other.row)
    assert first.row.max() < ROWS


def test_an_office_is_busy_by_day_and_idle_by_night_and_at_weekends() -> None:
    made = fleet(Workload.OFFICE, days=8)
    now = np.arange(made.steps) * made.step
    night = (now % DAY < 6 * HOUR) | (now % DAY > 20 * HOUR) | (now // DAY % 7 >= 5)
    noon = (now // DAY % 7 < 5) & (abs(now % DAY - 13 * HOUR) < HOUR)
    assert made.levels[night].max() == 0.0
    assert made.levels[noon].min() == 1.0
    idle = made.offset / (made.offset + made.scale)
    assert idle == pytest.approx(1 - published.OFFICE_SWING)


def test_most_of_a_cron_fleet_is_idle_but_for_the_same_hour_each_night() -> None:
    made = fleet(Workload.CRON, days=3)
    nightly = made.levels[:, : round(published.CRON_SHARE * ROWS)]
    hour = np.arange(made.steps) * made.step % DAY / HOUR
    busy = (hour >= 2) & (hour < 3)
    assert nightly[busy].min() == 1.0
    assert nightly[~busy].max() == 0.0


def test_a_hot_fleets_vms_are_cold_for_one_to_96_hours_and_then_never_again() -> None:
    made = fleet(Workload.HOT, days=10)
    turned = []
    for vm in range(0, made.vms, 7):
        course = (made.course(vm) - made.own) / made.memory[vm]
        hot = np.flatnonzero(course > 0.5)
        if hot.size:
            assert (course[hot[0] :] >= published.HOT_PEAK[0] - 1e-6).all()
            turned.append((hot[0] + 1) * made.step / HOUR)
        assert course[: hot[0] if hot.size else None] == pytest.approx(published.HOT_COLD, abs=1e-6)
    assert min(turned) >= 0.9
    assert max(turned) <= 96.5
    assert np.median(turned) < 24


def test_a_leak_grows_in_a_line_until_it_is_restarted() -> None:
    made = fleet(Workload.LEAK, days=15)
    leaking = made.levels[:, : round(published.LEAK_SHARE * ROWS)]
    step = np.diff(leaking, axis=0)
    restarts = step < 0
    assert restarts.sum(axis=0).min() > 0
    assert restarts.sum(axis=0).max() <= 15
    assert (step[restarts] < -0.9).all()
    assert step[~restarts].max() <= made.step / published.LEAK_LASTS[0] + 1e-6


def test_a_crowd_comes_to_a_fifth_of_the_vms_and_each_time_to_others() -> None:
    made = fleet(Workload.FLASH, days=40)
    many = (made.levels == 1.0).mean(axis=1)
    assert set(np.round(many[many > 0], 1)) == {published.FLASH_SHARE}
    begins = np.flatnonzero((many[1:] > 0) & (many[:-1] == 0)) + 1
    assert 6 <= len(begins) <= 25
    first, second = (made.levels[at] == 1.0 for at in begins[:2])
    assert (first & second).mean() == pytest.approx(published.FLASH_SHARE**2, abs=0.02)


def test_what_vms_in_antiphase_use_together_is_constant() -> None:
    made = fleet(Workload.ANTIPHASE, days=2)
    assert made.levels.mean(axis=1) == pytest.approx(0.5, abs=1e-6)
    assert (made.levels.max(axis=0) > 0.99).all()


def test_most_bursts_are_small_and_a_few_take_all() -> None:
    made = fleet(Workload.TAILS, days=10, step=300.0, hosts=1)
    bursts = made.levels[made.levels > 0]
    assert np.median(bursts) < 0.15
    assert 0.02 < (bursts == 1.0).mean() < 0.07
