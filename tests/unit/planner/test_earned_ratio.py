"""What a host earns by its own past: by hours enough in which it never ran short, and never more than its cap."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memhint.objects.plan import Evidence
from memhint.objects.units import GIB
from memhint.planner.earned_ratio import (
    ALL,
    DAY,
    FULL,
    HOUR,
    KEPT,
    NEEDED,
    Earned,
    UsageSample,
    cap,
    evidence,
    next_earned,
    suffices,
)
from memhint.planner.explain import capacity_steps, cost_of, earned_words, spare_words
from memhint.planner.plan import Sight
from memhint.planner.resume import after_boot, long_ago
from memhint.planner.settings import PlannerSettings
from memhint.planner.state import PlannerState, start, unlisted
from memhint.store import codec
from tests.unit import builders
from tests.unit.planner.worlds import LATER, SETTINGS, Vm, World, earned_by

FULL_HOST = UsageSample(use=20, assigned=100, base=100)
MAY = replace(SETTINGS, max_ratio=1.5, earned_max_ratio=4.0)
OFTEN = earned_by(300)


def watched(hours: float, look: UsageSample = FULL_HOST, earned: Earned | None = None, begin: float = 0.0) -> Earned:
    """A host that is looked at every ten minutes for so many hours."""
    found = earned or Earned()
    for place in range(round(hours * 6)):
        found = next_earned(found, look, begin + place * 600.0)
    return found


def test_nothing_is_earned_before_four_weeks_of_hours() -> None:
    almost = watched(NEEDED - 1)
    assert evidence(almost) == Evidence(NEEDED - 1, 200)
    assert not suffices(evidence(almost))
    assert suffices(evidence(next_earned(almost, FULL_HOST, (NEEDED - 1) * HOUR)))


def test_hours_are_enough_for_what_is_said_of_them() -> None:
    alpha = 0.0015  # of the hours, if they were exchangeable
    assert 1 / alpha - 1 <= NEEDED


@pytest.mark.parametrize(
    "look", [replace(FULL_HOST, assigned=FULL - 1, use=0), UsageSample(0, 0, 100), UsageSample(0, 0, 0)]
)
def test_a_host_that_is_not_full_earns_nothing(look: UsageSample) -> None:
    assert evidence(watched(2 * NEEDED, look)).hours == 0


def test_looking_often_makes_no_hour_count_twice() -> None:
    found = Earned()
    for second in range(0, 3600, 10):
        found = next_earned(found, FULL_HOST, float(second))
    assert evidence(found).hours == 1


def test_an_agent_that_was_away_earned_nothing_meanwhile() -> None:
    week = watched(7 * 24)
    later = next_earned(week, FULL_HOST, 40 * DAY)
    assert evidence(later).hours == 7 * 24 + 1


def test_one_look_in_which_the_host_ran_short_costs_all_until_it_is_forgotten() -> None:
    earned = next_earned(watched(NEEDED), replace(FULL_HOST, failed=True), NEEDED * HOUR)
    assert evidence(earned).share == ALL
    assert not suffices(evidence(earned))
    late = watched(24 * KEPT - 2, earned=earned, begin=NEEDED * HOUR + 600)
    assert not suffices(evidence(late))
    assert suffices(evidence(watched(24, earned=late, begin=NEEDED * HOUR + (KEPT - 0.5) * DAY)))


def test_the_worst_look_stands_for_all() -> None:
    earned = watched(NEEDED)
    higher = next_earned(earned, replace(FULL_HOST, use=61), NEEDED * HOUR)
    assert evidence(higher).share == 610
    assert evidence(watched(24, earned=higher, begin=NEEDED * HOUR + 600)).share == 610


def test_days_that_another_rule_judged_or_another_clock_numbered_say_nothing() -> None:
    earned = watched(NEEDED)
    assert evidence(replace(earned, rule=0)) == Evidence(0, ALL)
    assert evidence(next_earned(replace(earned, rule=0), FULL_HOST, NEEDED * HOUR)).hours == 1
    assert evidence(next_earned(earned, FULL_HOST, 3.0)).hours == 1


def test_what_was_earned_outlives_the_agent_and_is_of_bounded_size() -> None:
    state = replace(start(MAY), earned=watched(90 * 24))
    kept = codec.parse_as(codec.dump(state), PlannerState)
    assert kept.earned == state.earned
    assert long_ago(kept).earned == state.earned
    assert len(kept.earned.days) <= KEPT


looks = st.builds(
    UsageSample, st.integers(0, 2**50), st.integers(0, 2**50), st.integers(-(2**50), 2**50), st.booleans()
)


@given(seen=st.lists(st.tuples(looks, st.floats(-1e6, 1e9)), max_size=30), room=st.integers(-(2**50), 2**50))
def test_whatever_is_seen_the_operator_s_cap_holds(seen: list[tuple[UsageSample, float]], room: int) -> None:
    earned = Earned()
    for look, now in seen:
        earned = next_earned(earned, look, now)
        assert len(earned.days) <= KEPT
        assert all(0 <= one.worst <= ALL and 0 <= one.hours <= 24 for one in earned.days)
    for found in (evidence(earned), Evidence(NEEDED, evidence(earned).share), Evidence(NEEDED, 0)):
        for base in (0, 1, 2**50):
            assert 1.5 <= cap(found, room, base, 1.5, 2.0) <= 2.0
            assert cap(found, room, base, 1.5, 1.2) == 1.5


@given(share=st.integers(1, ALL - 1), room=st.integers(1, 2**40), base=st.integers(1, 2**40))
def test_no_ratio_is_earned_at_which_the_worst_hour_would_not_have_fitted(share: int, room: int, base: int) -> None:
    most = cap(Evidence(NEEDED, share), room, base, 0.0, 100.0)
    assert round(most * 100) * share * base <= room * 100 * ALL


def host(vms: int, use: int, size: int = 4 * GIB) -> World:
    return World(
        tuple(Vm(size, use, use) for _ in range(vms)), free=48 * GIB - vms * use, other=GIB, swap_total=256 * GIB
    )


def promised(world: World, chosen: PlannerSettings, earned: Earned):
    state = replace(world.first_look(chosen), earned=earned)
    return world.look(state, LATER, chosen).plan.capacity


def test_a_host_promises_more_once_it_has_earned_it_and_no_more_than_its_cap() -> None:
    world = host(16, GIB)
    before = promised(world, MAY, Earned())
    after = promised(world, MAY, OFTEN)
    capped = promised(world, replace(MAY, earned_max_ratio=1.6), OFTEN)
    assert before.max_ratio == 1.5 < after.max_ratio
    assert before.headroom < capped.headroom < after.headroom
    assert capped.max_ratio == 1.6
    assert promised(world, replace(MAY, earned_max_ratio=0.0), OFTEN) == replace(before, evidence=None)


def test_what_vms_use_now_counts_whatever_they_used_before() -> None:
    busy = host(14, 3 * GIB)
    assert promised(busy, MAY, OFTEN).headroom <= promised(busy, replace(MAY, earned_max_ratio=0.0), OFTEN).headroom


def test_a_host_that_runs_short_promises_as_one_that_earned_nothing_at_once() -> None:
    world = replace(host(14, GIB), free=4 * GIB)
    found = promised(world, replace(MAY, reserve=8 * GIB), OFTEN)
    assert found.evidence == Evidence(NEEDED, ALL)
    assert found.max_ratio == 1.5
    assert not found.together


def unlisted_cycles(world: World, state: PlannerState) -> PlannerState:
    """Ten cycles before libvirt has said which VMs there are."""
    for place in range(10):
        state = unlisted(state, world.look(state, LATER + 30.0 * place, MAY, Sight.BLIND).state)
    return state


def test_a_shortage_before_libvirt_has_listed_the_vms_costs_all() -> None:
    state = replace(start(MAY), earned=OFTEN)
    short = World((), free=GIB, other=63 * GIB, psi=90.0)
    assert evidence(unlisted_cycles(short, state).earned) == Evidence(NEEDED, ALL)
    assert evidence(unlisted_cycles(World((), free=60 * GIB), state).earned) == evidence(OFTEN)


def test_a_process_that_was_killed_for_want_of_memory_costs_all_whatever_is_free() -> None:
    world = replace(host(14, GIB), killed=7)
    state = replace(world.first_look(MAY), earned=OFTEN)
    found = replace(world, killed=8).look(state, LATER, MAY)
    assert found.plan.capacity.evidence == Evidence(NEEDED, ALL)
    assert found.plan.capacity.max_ratio == 1.5
    assert evidence(found.state.earned).share == ALL
    assert evidence(world.look(state, LATER, MAY).state.earned).share == 300  # those before are none of now


@pytest.mark.parametrize("sight", [Sight.STALE, Sight.BLIND])
def test_nor_does_it_matter_whether_the_vms_were_seen_then(sight: Sight) -> None:
    world = host(14, GIB)
    state = replace(world.first_look(MAY), earned=OFTEN)
    planned = replace(world, killed=1).look(state, LATER, MAY, sight).state
    assert evidence(planned.earned) == Evidence(NEEDED, ALL)
    blind = unlisted(state, planned)
    assert evidence(blind.earned) == Evidence(NEEDED, ALL)
    assert blind.oom_kills == 1


def test_a_kill_is_seen_once_it_can_be_counted_again_and_by_an_agent_that_was_away() -> None:
    world = host(14, GIB)
    state = replace(world.first_look(MAY), earned=OFTEN)
    unread = replace(world, killed=None).look(state, LATER, MAY).state
    assert evidence(unread.earned).share == 300
    killed = replace(world, killed=1)
    assert evidence(killed.look(unread, LATER + 10, MAY).state.earned).share == ALL
    assert evidence(killed.look(long_ago(state), LATER + 10, MAY).state.earned).share == ALL
    # A boot counts from 0 again.
    booted = after_boot(replace(state, oom_kills=5), LATER, MAY, 60.0)
    assert evidence(world.look(booted, LATER + 10, MAY).state.earned).share == 300
    assert booted.oom_kills is None


@pytest.mark.parametrize("policy", [{"class": "guaranteed"}, {"overcommit": "deny"}])
def test_a_vm_that_counts_in_full_makes_no_room_though_it_used_more_than_vms_ever_did(policy: dict[str, str]) -> None:
    large = Vm(16 * GIB, 15 * GIB, 15 * GIB)
    small = [Vm(2 * GIB, 2 * GIB, GIB // 8) for _ in range(8)]
    world = World((large, *small), free=48 * GIB, swap_total=256 * GIB)
    before = promised(world, MAY, earned_by(100))
    full = replace(world, vms=(replace(large, policy=policy), *small))
    assert before.together
    assert promised(full, MAY, earned_by(100)).headroom <= before.headroom


def test_a_new_vm_counts_in_full_whatever_was_earned() -> None:
    world = host(14, GIB)
    more = replace(world, vms=(*world.vms, Vm(8 * GIB, 0, 0, new=True)))
    assert promised(more, MAY, OFTEN).want >= promised(world, MAY, OFTEN).want + 8 * GIB


@settings(max_examples=100)
@given(vms=st.integers(1, 14), use=st.integers(0, 3), share=st.integers(1, 999))
def test_evidence_never_takes_from_what_is_promised_without_it(vms: int, use: int, share: int) -> None:
    world = host(vms, use * GIB)
    assert promised(world, MAY, earned_by(share)).headroom >= promised(world, MAY, Earned()).headroom


def test_what_was_earned_is_explained_and_adds_up() -> None:
    world = host(14, GIB)
    greedy = replace(MAY, earned_max_ratio=9.0, growth_floor=False)
    busy = replace(world, vms=tuple(replace(vm, before=vm.size) for vm in world.vms))
    state = replace(busy.first_look(greedy), earned=earned_by(300))
    found = busy.look(state, LATER, greedy).plan
    assert found.capacity.together
    steps = capacity_steps(found.capacity)
    assert sum(step.amount for step in steps) == found.capacity.headroom
    assert "what all VMs used together at their worst" in {step.why for step in steps}
    cost = cost_of(found.demands[0], found.capacity, found.demands, greedy)
    assert (cost.counted, cost.given) == (GIB, found.demands[0].assigned - GIB)
    assert spare_words(found.capacity, found.demands, greedy).startswith("half of the VMs coming at once")
    calm = replace(world.first_look(greedy), earned=earned_by(300))
    found = world.look(calm, LATER, greedy).plan
    assert found.capacity.together
    cost = cost_of(found.demands[0], found.capacity, found.demands, greedy)
    assert cost.counted == -(-found.demands[0].assigned * 300 // ALL)
    assert spare_words(found.capacity, found.demands, greedy).startswith("10 % of the VMs")


def test_half_of_the_vms_may_come_at_once_to_what_each_may_need_whatever_the_host_has_seen() -> None:
    world = host(14, GIB)
    woken = replace(world, vms=tuple(replace(vm, before=vm.size) for vm in world.vms))
    slept, seen = promised(world, MAY, earned_by(250)), promised(woken, MAY, earned_by(250))
    assert slept.together
    assert seen.headroom < slept.headroom
    state = replace(woken.first_look(MAY), earned=earned_by(250))
    demands = woken.look(state, LATER, MAY).plan.demands
    base = seen.pool - seen.reserve - seen.other
    by_half = sum(one.footprint for one in demands) + sum(one.demand - one.footprint for one in demands) // 2
    alone = promised(woken, replace(MAY, earned_max_ratio=0.0), Earned()).headroom
    assert seen.headroom <= max(alone, base - by_half)


def test_what_is_missing_is_said() -> None:
    few = replace(builders.capacity(), max_ratio=1.5, evidence=Evidence(212, 300))
    assert earned_words(few) == (
        "nothing yet: it takes 672 hours in which VMs were given most of the host, and 212 are seen"
    )
    short = replace(few, evidence=Evidence(900, ALL))
    assert earned_words(short) == "nothing for 56 days, for the host ran short of memory"
    assert earned_words(replace(few, evidence=None)) is None
