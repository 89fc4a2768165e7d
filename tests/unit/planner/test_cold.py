"""Memory that rests goes to swap on a calm host, as much as a reading says, while hardly any of it comes back."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memhint.objects.active import ActiveMemory, ActiveSource, Idle
from memhint.objects.domain import DomainObservation
from memhint.objects.exclusion import Excluded, Exclusion
from memhint.objects.ladder import Rung
from memhint.objects.policy import Origin, effective
from memhint.objects.units import GIB, MIB
from memhint.planner.cold import Cold, ColdSettings, cold_wishes, next_cold
from memhint.planner.plan import Planned, plan
from memhint.planner.relief.candidate import Candidate
from memhint.planner.settings import LadderSettings, PlannerSettings
from memhint.planner.state import PlannerState, start
from memhint.store import codec
from tests.unit import builders

SETTINGS = ColdSettings()
ALLOW = {"swap_out": "allow"}
NAME = "77:1"


def reading(at: float, error: int = 0, **idle: int) -> ActiveMemory:
    found = tuple(Idle(float(age[1:]), size, at) for age, size in idle.items())
    return ActiveMemory(at, ActiveSource.DAMON, 4 * GIB, found, 0.0, error)


def vm(active: ActiveMemory | None = None, rss: int = 4 * GIB, swap: int = 0) -> DomainObservation:
    process = builders.process(pid=77, start_ticks=1, rss=rss, swap=swap, ksm_zero=0)
    return builders.domain_observation(uuid="a", name="a", process=process, active=active)


def run(*looks: DomainObservation, before: dict[str, Cold] | None = None, elapsed: float = 10.0) -> dict[str, Cold]:
    known = before or {}
    for look in looks:
        known = next_cold(known, [look], elapsed, SETTINGS)
    return known


def wish(known: dict[str, Cold], idle: bool = True, excluded: tuple[Excluded, ...] = (), **policy: str) -> int:
    candidate = Candidate(vm(), effective({Origin.OPERATOR: ALLOW | policy}), idle, excluded)
    return cold_wishes(known, [candidate]).get("a", 0)


def test_what_rests_may_go_and_no_more_than_a_reading_surely_says() -> None:
    known = run(vm(reading(1000.0, a10=3 * GIB, a60=2 * GIB, a600=GIB)))
    assert wish(known) == 2 * GIB
    assert wish(run(vm(reading(1000.0, 64 * MIB, a60=2 * GIB)))) == 2 * GIB - 64 * MIB
    assert wish(run(vm(reading(1000.0, 3 * GIB, a60=2 * GIB)))) == 0


def test_without_a_reading_of_that_age_nothing_goes() -> None:
    assert wish(run(vm())) == 0
    assert wish(run(vm(reading(1000.0, a10=3 * GIB)))) == 0
    assert wish(run(vm(reading(1000.0, a600=GIB)))) == GIB  # what rests for longer rests


def test_what_went_is_not_asked_for_again_until_the_next_reading() -> None:
    one = reading(1000.0, a60=2 * GIB)
    known = run(vm(one), vm(one, 3 * GIB, GIB))
    assert wish(known) == GIB
    known = run(vm(one, 2 * GIB, 2 * GIB), vm(one, 2 * GIB, 2 * GIB), before=known)
    assert wish(known) == 0
    assert wish(run(vm(reading(1060.0, a60=256 * MIB), 2 * GIB, 2 * GIB), before=known)) == 256 * MIB


def test_a_reading_is_not_gone_by_for_ever() -> None:
    one = reading(1000.0, a60=2 * GIB)
    known = run(vm(one))
    assert wish(run(vm(one), before=known, elapsed=600.0)) == 2 * GIB
    assert wish(run(vm(one), before=known, elapsed=601.0)) == 0


def test_little_that_comes_back_stops_nothing() -> None:
    one = reading(1000.0, a60=2 * GIB)
    known = run(vm(one, 3 * GIB, GIB), vm(one, 3 * GIB + 8 * MIB, GIB - 8 * MIB))
    assert wish(known) == 2 * GIB


def test_much_that_comes_back_stops_it_until_the_next_reading_and_then_only_what_rests_for_longer_goes() -> None:
    one = reading(1000.0, a10=3 * GIB, a60=2 * GIB, a600=GIB)
    known = run(vm(one, 3 * GIB, GIB), vm(one, 3 * GIB + 9 * MIB, GIB - 9 * MIB))
    assert wish(known) == 0
    # it has calmed, and all that there is was read before
    known = run(*[vm(one, 3 * GIB + 9 * MIB, GIB - 9 * MIB)] * 30, before=known)
    assert wish(known) == 0
    known = run(vm(replace(one, at=1060.0, idle=tuple(replace(x, at=1060.0) for x in one.idle))), before=known)
    assert wish(known) == 0  # its swap fell to nothing: all of it came back
    later = reading(2000.0, a60=2 * GIB, a600=GIB)
    known = run(*[vm(reading(1060.0, a60=2 * GIB, a600=GIB))] * 60, vm(later), before=known)
    assert wish(known) == GIB
    assert known[NAME].age == 600.0


def test_one_wake_is_one_step_however_long_it_takes() -> None:
    looks = [vm(None, 2 * GIB + step * 200 * MIB, 2 * GIB - step * 200 * MIB) for step in range(10)]
    assert run(*looks)[NAME].age == 600.0


def test_the_rate_is_of_a_minute_whatever_the_period() -> None:
    def back(per_look: int, elapsed: float) -> bool:
        known: dict[str, Cold] = {}
        for step in range(int(600 / elapsed)):
            known = next_cold(known, [vm(None, 4 * GIB, GIB - step * per_look)], elapsed, SETTINGS)
        return known[NAME].paused

    most = int(5 * GIB * 0.002)
    for elapsed in (1.0, 5.0, 10.0):
        assert not back(int(most * 0.8 * elapsed / 60), elapsed)
        assert back(int(most * 1.3 * elapsed / 60), elapsed)


def test_only_idle_vms_that_allow_it_and_no_less_than_their_minimum_stays() -> None:
    known = run(vm(reading(1000.0, a60=3 * GIB)))
    assert wish(known) == 3 * GIB
    assert wish(known, idle=False) == 0
    assert wish(known, swap_out="deny") == 0
    assert wish(known, **{"class": "guaranteed"}) == 0
    assert wish(known, min_mb="2048") == 2 * GIB
    assert wish(known, min_mb="4096") == 0


@pytest.mark.parametrize(
    "exclusion", [Exclusion.LOCKED, Exclusion.PASSTHROUGH, Exclusion.CONFIDENTIAL, Exclusion.FILE_BACKED]
)
def test_who_may_not_be_swapped_is_not_asked(exclusion: Exclusion) -> None:
    known = run(vm(reading(1000.0, a60=3 * GIB)))
    assert wish(known, excluded=(Excluded(exclusion, ""),)) == 0


def test_a_process_that_ended_is_forgotten_and_its_successor_is_new() -> None:
    known = run(vm(reading(1000.0, a60=3 * GIB)))
    other = replace(vm(), process=builders.process(pid=78, start_ticks=1))
    assert set(next_cold(known, [other], 10.0, SETTINGS)) == {"78:1"}
    assert next_cold(known, [replace(vm(), process=None)], 10.0, SETTINGS) == {}


@given(st.integers(0, 3 * GIB), st.integers(0, 3 * GIB))
def test_what_is_put_away_raises_no_headroom_and_is_asked_for_by_the_plan(swapped: int, resting: int) -> None:
    settings = PlannerSettings(ladder=LadderSettings(always=frozenset({Rung.SWAP_OUT})))

    def headroom(swap: int, available: int) -> tuple[int, Planned]:
        host = builders.host_observation(
            memory=builders.host_memory(total=64 * GIB, available=available, swap_total=64 * GIB, swap_used=swap)
        )
        look = replace(vm(reading(1000.0, a60=resting), 4 * GIB - swap, swap), facts=builders.facts(memory=8 * GIB))
        policies = {"a": effective({Origin.OPERATOR: ALLOW})}
        first = plan(host, [look], policies, start(settings), 0.0, settings)
        second = plan(host, [look], policies, first.state, 10.0, settings)
        return second.plan.capacity.headroom, second

    in_memory, planned = headroom(0, 32 * GIB)
    away, _ = headroom(swapped, 32 * GIB + swapped)
    assert away <= in_memory
    assert planned.plan.relief.swap_out == ({"a": resting} if resting else {})
    assert codec.parse_as(codec.dump(planned.state), PlannerState).cold == planned.state.cold


@given(
    st.lists(
        st.tuples(st.integers(0, 4 * GIB), st.floats(0, 1e5), st.integers(0, 4 * GIB), st.integers(0, GIB)), max_size=20
    )
)
def test_never_more_goes_than_the_newest_reading_says(looks: list[tuple[int, float, int, int]]) -> None:
    known: dict[str, Cold] = {}
    for swap, at, idle, error in looks:
        known = next_cold(known, [vm(reading(at, error, a60=idle, a600=idle // 2), GIB, swap)], 10.0, SETTINGS)
        assert 0 <= wish(known) <= 4 * GIB
        most = max((max(0, size - wrong) for _, _, size, wrong in looks), default=0)
        assert wish(known) <= most
