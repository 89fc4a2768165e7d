"""The ladder: up one rung at a time and at once at the bottom, down in reverse after calm, and never to and fro."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memhint.objects.ladder import Rung
from memhint.planner.ladder import LadderState, admission, entered_rungs, next_ladder
from memhint.planner.pressure import PressureSample, Waits
from memhint.planner.settings import LadderSettings, PressureThresholds, rungs

LOWEST = PressureThresholds(
    psi_enter=10, psi_exit=2, swap_in_enter=4e6, swap_in_exit=1e6, available_enter=3, available_exit=6, cooldown=60
)
SETTINGS = LadderSettings(rungs=rungs(LOWEST), climb=20.0)
CALM = PressureSample(0.0, 0.0, 50.0)
BETWEEN = PressureSample(5.0, 0.0, 50.0)
STORM = PressureSample(90.0, 1e9, 0.1, 1e9)
ORDER = tuple(Rung)


def after(*steps: tuple[float, PressureSample], settings: LadderSettings = SETTINGS) -> LadderState:
    state = LadderState()
    for now, sample in steps:
        state = next_ladder(state, sample, now, settings)
    return state


def names(state: LadderState) -> tuple[Rung, ...]:
    return tuple(one.rung for one in state.entered)


def test_the_first_rung_is_entered_at_once_and_the_next_without_waiting_for_it() -> None:
    assert names(after((0.0, STORM))) == (Rung.ADMISSION,)
    assert names(after((0.0, STORM), (1.0, STORM))) == (Rung.ADMISSION, Rung.REPORTING)


def test_a_rung_is_given_time_to_show_unless_nobody_was_asked() -> None:
    two = after((0.0, STORM), (1.0, STORM))
    assert names(next_ladder(two, STORM, 20.9, SETTINGS)) == ORDER[:2]
    assert names(next_ladder(two, STORM, 21.0, SETTINGS)) == ORDER[:3]
    fruitless = two.after(frozenset({Rung.ADMISSION, Rung.REPORTING}))
    assert names(next_ladder(fruitless, STORM, 2.0, SETTINGS)) == ORDER[:3]


def test_a_storm_climbs_to_the_top_and_calm_descends_in_reverse() -> None:
    state, seen = LadderState(), []
    for step in range(40):
        state = next_ladder(state, STORM, step * 10.0, SETTINGS)
        if not seen or seen[-1] != names(state):
            seen.append(names(state))
    assert seen == [ORDER[: count + 1] for count in range(len(ORDER))]
    down = []
    for step in range(40, 80):
        state = next_ladder(state, CALM, step * 10.0, SETTINGS)
        if not down or down[-1] != names(state):
            down.append(names(state))
    assert down == [ORDER[:count] for count in range(len(ORDER), -1, -1)]


def test_milder_pressure_stops_half_way() -> None:
    mild = PressureSample(12.0, 0.0, 14.0)
    state = after(*((step * 30.0, mild) for step in range(20)))
    assert names(state) == (Rung.ADMISSION, Rung.REPORTING, Rung.CACHE, Rung.RECYCLER)


@pytest.mark.parametrize(
    "signal",
    [
        PressureSample(90.0, 0.0, 62.0, 0.0),
        PressureSample(0.0, 1e9, 62.0, 0.0),
        PressureSample(0.0, 0.0, 62.0, 1e9),
        PressureSample(90.0, 1e9, 62.0, 1e9),
    ],
)
def test_without_scarcity_no_signal_enters_a_rung_that_takes_from_vms(signal: PressureSample) -> None:
    state = after(*((step * 10.0, signal) for step in range(200)))
    assert names(state) == (Rung.ADMISSION, Rung.REPORTING)
    # ...and one that was entered while memory was scarce is left once it is plenty, whoever waits still.
    climbed = after(*((step * 10.0, STORM) for step in range(40)))
    assert names(climbed) == ORDER
    for step in range(40, 120):
        climbed = next_ladder(climbed, signal, step * 10.0, SETTINGS)
    assert names(climbed) == (Rung.ADMISSION, Rung.REPORTING)


def test_what_others_than_the_vms_wait_for_is_no_pressure_while_memory_is_plenty() -> None:
    job = PressureSample(45.0, 1e9, 62.0, 1e9, vms=Waits(0.0, 0.0, 0.0))
    assert names(after(*((step * 10.0, job) for step in range(200)))) == ()
    scarce = replace(job, available=14.0)
    assert names(after((0.0, scarce))) == (Rung.ADMISSION,)
    own = replace(job, vms=Waits(12.0, 0.0, 0.0))
    assert "of the VMs' cgroup 12.0 %" in after((0.0, own)).entered[0].why


def test_a_full_node_that_vms_are_bound_to_is_scarcity() -> None:
    bound = PressureSample(90.0, 0.0, 62.0, 0.0, node=2.0)
    assert Rung.SWAP_OUT in names(after(*((step * 30.0, bound) for step in range(20))))


def test_leaving_takes_the_whole_cooldown_and_a_relapse_begins_it_anew() -> None:
    assert names(after((0.0, STORM), (10.0, CALM), (69.0, CALM)))
    assert not names(after((0.0, STORM), (10.0, CALM), (70.0, CALM)))
    assert names(after((0.0, STORM), (10.0, CALM), (40.0, BETWEEN), (69.0, CALM), (71.0, CALM)))


def test_between_the_limits_nothing_changes() -> None:
    assert not names(after((0.0, BETWEEN)))
    assert names(after((0.0, STORM), (500.0, BETWEEN), (1000.0, BETWEEN))) == (Rung.ADMISSION,)


def test_a_rung_that_is_not_wished_is_stepped_over_and_left_when_settings_change() -> None:
    few = LadderSettings(rungs=rungs(LOWEST, (Rung.ADMISSION, Rung.CACHE)), climb=20.0)
    assert names(after((0.0, STORM), (1.0, STORM), settings=few)) == (Rung.ADMISSION, Rung.CACHE)
    state = after((0.0, STORM), (1.0, STORM))
    assert names(next_ladder(state, BETWEEN, 2.0, few)) == (Rung.ADMISSION,)


def test_admission_says_how_high_and_how_long() -> None:
    state = after((0.0, STORM), (1.0, STORM), (10.0, CALM))
    said = admission(state, 30.0, SETTINGS)
    assert not said.admitting
    assert "40 s" in said.detail
    assert "reporting" in said.detail
    assert admission(LadderState(), 30.0, SETTINGS).admitting
    assert entered_rungs(state, 30.0)[0].age == 30.0


SAMPLES = st.builds(
    PressureSample,
    st.none() | st.floats(0, 100),
    st.none() | st.floats(0, 1e9),
    st.floats(0, 100),
    st.none() | st.floats(0, 1e9),
    st.builds(Waits, st.none() | st.floats(0, 100), st.none() | st.floats(0, 1e9), st.none() | st.floats(0, 1e9)),
    st.none() | st.floats(0, 100),
)


@given(st.lists(st.tuples(st.floats(0.1, 100.0), SAMPLES), max_size=60))
def test_rungs_are_entered_and_left_in_their_order_and_one_at_a_time_but_for_a_fall(
    steps: list[tuple[float, PressureSample]],
) -> None:
    state, now = LadderState(), 0.0
    for elapsed, sample in steps:
        now += elapsed
        before, state = state, next_ladder(state, sample, now, SETTINGS)
        assert names(state) == ORDER[: len(state.entered)]
        for one in state.entered[len(before.entered) + 1 :]:
            assert "as it falls" in one.why
        assert len(before.entered) - len(state.entered) <= 1
        if len(state.entered) < len(before.entered):
            left = before.entered[-1]
            assert left.calm_since is not None
            assert now - left.calm_since >= LOWEST.cooldown


def falling(start: float, rate: float, times: list[float]) -> LadderState:
    """Memory of which so many percent a second are taken, from ``start`` percent."""
    return after(*((at, PressureSample(0.0, 0.0, max(0.0, start - rate * at))) for at in times))


def test_a_fast_fall_enters_all_rungs_that_it_will_pass_at_once() -> None:
    # Half a GiB a second of 256 GiB: gone 15 s after the first limit, before a second rung was due.
    times = [0.0, 10.0, 20.0, 30.0]
    state = falling(8.8, 0.2, times)
    assert names(state) == ORDER
    assert state.entered[0].why == "available 2.8 % of the pool (enters at 3 %)"
    said = "available 2.8 % of the pool, and 0.0 % in 20 s as it falls (enters at 1.8 %)"
    assert state.entered[-1].why == said
    # At a tenth of that the next rung is in time.
    assert names(falling(3.4, 0.02, times)) == ORDER[:4]
    # Before any limit is passed nothing is entered, however fast it goes.
    assert names(falling(50.0, 1.5, times)) == ()
    # One look tells no rate, nor do two in a moment.
    assert names(falling(2.0, 0.2, [0.0])) == ORDER[:1]
    assert names(after((0.0, CALM), (1.0, PressureSample(0.0, 0.0, 2.9)))) == ORDER[:1]


def test_what_fell_long_ago_falls_no_more() -> None:
    short = PressureSample(0.0, 0.0, 2.9)
    assert names(after((0.0, CALM), (1000.0, short), (1010.0, short), (1019.0, short))) == ORDER[:2]
    assert len(after(*((float(at), CALM) for at in range(1000))).seen) == 21


@given(
    st.floats(0, 10),
    st.lists(st.floats(0, 1), min_size=1, max_size=200),
    st.floats(1.0, 30.0),
)
def test_noise_of_available_memory_never_makes_it_oscillate(low: float, noise: list[float], period: float) -> None:
    width = 0.999 * min(one.limits.available_exit - one.limits.available_enter for one in SETTINGS.rungs)
    state, turns, last = LadderState(), 0, 0
    for step, part in enumerate(noise):
        state = next_ladder(state, PressureSample(0.0, 0.0, low + part * width), step * period, SETTINGS)
        turns += len(state.entered) < last
        last = len(state.entered)
    assert turns == 0


@given(
    st.floats(0, 100),
    st.lists(st.floats(0, 1), min_size=1, max_size=200),
    st.floats(1.0, 30.0),
    st.sampled_from([14.0, 50.0]),
)
def test_noise_no_wider_than_the_hysteresis_never_makes_it_oscillate(
    low: float, noise: list[float], period: float, available: float
) -> None:
    """A signal within a band narrower than a rung's enter − exit cannot both enter and leave that rung."""
    width = 0.999 * (LOWEST.psi_enter - LOWEST.psi_exit)  # the narrowest: higher rungs have more
    state, turns, last = LadderState(), 0, 0
    for step, part in enumerate(noise):
        sample = PressureSample(min(100.0, low + part * width), 0.0, available)
        state = next_ladder(state, sample, step * period, SETTINGS)
        if len(state.entered) < last:
            turns += 1
        last = len(state.entered)
    assert turns == 0


@given(
    st.floats(7, 40),
    st.lists(st.floats(0, 1), min_size=1, max_size=200),
    st.floats(1.0, 30.0),
    st.builds(Waits, st.none() | st.just(0.0)),
)
def test_memory_about_to_be_scarce_never_makes_it_oscillate(
    low: float, noise: list[float], period: float, vms: Waits
) -> None:
    """While somebody waits all the time: a rung is entered by scarcity, and left by plenty, and not by turns."""
    narrowest = min(one.limits.scarce_exit - one.limits.scarce_enter for one in SETTINGS.rungs)
    state, turns, last = LadderState(), 0, 0
    for step, part in enumerate(noise):
        sample = PressureSample(90.0, 0.0, low + part * 0.999 * narrowest, vms=vms)
        state = next_ladder(state, sample, step * period, SETTINGS)
        if len(state.entered) < last:
            turns += 1
        last = len(state.entered)
    assert turns == 0
