"""VMs neither vanish nor appear, nobody is admitted beyond the promise, and the same seed gives the same outcome."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memhint.objects.units import GIB
from memhint.planner.settings import PlannerSettings
from memhint.sim.compare import compare
from memhint.sim.engine import Run, Strategy, simulate
from memhint.sim.fleet import Fleet, HostShape
from memhint.sim.gain import memory_gains, oracle_shares
from memhint.sim.generate import Workload, generate
from memhint.sim.guaranteed import with_guaranteed
from memhint.sim.needed import needed
from memhint.sim.policy import DEFAULT, Oracle, Planned, PolicyError, Static, parse

PLANNER = PlannerSettings()
SHAPE = HostShape(pool=64 * GIB, swap=32 * GIB, other=1 * GIB)
NOMINAL = Static("nominal", 1.0)
USABLE = SHAPE.pool - PLANNER.reserve_of(SHAPE.pool) - SHAPE.other


def fleet(sizes: list[int], level: float, *, steps: int = 4, hosts: int = 1, shape: HostShape = SHAPE) -> Fleet:
    """VMs of these sizes that all ask at once, stay, and use ``level`` of their memory."""
    count = len(sizes)
    return Fleet(
        name="made",
        shape=shape,
        hosts=hosts,
        step=300.0,
        steps=steps,
        arrival=np.zeros(count, dtype=np.int64),
        departure=np.full(count, steps + 1),
        memory=np.array(sizes, dtype=np.float64),
        offset=np.zeros(count),
        scale=np.array(sizes, dtype=np.float64),
        row=np.zeros(count, dtype=np.int64),
        levels=np.full((steps, 1), level),
        own=0,
    )


def any_fleet(seed: int) -> Fleet:
    kind = list(Workload)[seed % len(Workload)]
    made = generate(kind, hosts=1 + seed % 3, days=0.5, step=1200.0, seed=seed, shape=SHAPE, offered=3.0)
    if seed % 2:  # more use than there is memory: hosts run out of it
        return replace(made, scale=made.memory * 2, shape=replace(SHAPE, swap=4 * GIB))
    return made


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    name=st.sampled_from(DEFAULT),
    strategy=st.sampled_from(Strategy),
    groups=st.booleans(),
    ratio=st.sampled_from([1.0, 1.5, 4.0]),
)
def test_vms_are_conserved_and_nobody_is_admitted_beyond_the_promise(
    seed: int, name: str, strategy: Strategy, groups: bool, ratio: float
) -> None:
    planner = replace(PLANNER, max_ratio=ratio, allow_unbacked=64 * GIB)
    (policy,) = parse([name], planner)
    made = any_fleet(seed)
    run = Run(made, policy, planner, strategy=strategy, groups=groups)
    for step in range(made.steps):
        before = run.admitted
        run.step(step)
        assert run.admitted == len(run.table) + run.departed + run.killed
        held = np.bincount(run.table["host"], weights=run.table["memory"], minlength=made.hosts)
        assert np.array_equal(run.flavors, held)
        assert (run.room >= 0).all()
        if run.admitted > before:
            new = run.table["host"][np.isnan(run.table["former"])]
            assert (run.flavors[new] <= run.limit[new]).all()
        else:
            assert not np.isnan(run.table["former"]).any()
    outcome = run.outcome()
    assert outcome.asked == made.vms
    assert outcome.admitted <= outcome.asked
    assert (outcome.oom_events > 0) == (outcome.killed > 0)
    assert 0.0 <= outcome.violation_share <= 1.0
    if isinstance(policy, Planned):
        assert math.isclose(sum(outcome.bounds.values()), 1.0)


def test_what_is_promised_is_not_given_twice() -> None:
    made = replace(fleet([1 * GIB] * 60, 0.1, steps=3), arrival=np.full(60, 2))
    (policy,) = parse(["peak"], PLANNER)
    run = Run(made, policy, PLANNER)
    for step in range(3):
        run.step(step)
    # The empty host promises what nominal accounting would, to VMs of 1 GiB with their overhead.
    assert run.admitted == USABLE // (1 * GIB + PLANNER.overhead)


@pytest.mark.parametrize(("ratio", "fit"), [(1.0, USABLE // (4 * GIB)), (1.5, int(1.5 * USABLE) // (4 * GIB))])
def test_a_fixed_ratio_places_what_its_flavors_leave_room_for(ratio: float, fit: int) -> None:
    outcome = simulate(fleet([4 * GIB] * 40, 0.1), Static("static", ratio), PLANNER)
    assert (outcome.admitted, outcome.placed_peak) == (fit, fit)
    assert outcome.violation_minutes == 0.0


def test_a_host_violates_while_its_vms_use_more_than_memory_less_reserve() -> None:
    made = fleet([8 * GIB] * 11, 0.9, steps=5)
    levels = np.array([[0.0], [0.9], [0.5], [0.9], [0.0]])
    outcome = simulate(replace(made, levels=levels), Static("static", 1.5), PLANNER)
    use = 11 * math.floor(0.9 * 8 * GIB) + SHAPE.other
    over = use - (SHAPE.pool - PLANNER.reserve_of(SHAPE.pool))
    assert over > 0
    assert outcome.violation_minutes == 2 * 5.0
    assert outcome.violation_share == 2 / 5
    assert outcome.worst == pytest.approx(over / SHAPE.pool)
    assert (outcome.oom_events, outcome.killed) == (0, 0)


def test_a_violation_is_counted_by_its_worst_host_its_vms_and_what_is_in_swap() -> None:
    made = fleet([8 * GIB] * 22, 0.9, steps=4, hosts=2)
    # What both use, and beside it what the VMs of one host alone.
    made = replace(made, row=np.arange(22) % 2, levels=np.array([[0.0, 0.0], [0.9, 0.9], [0.9, 0.5], [0.0, 0.0]]))
    outcome = simulate(made, Static("static", 1.5), PLANNER)
    over = 11 * math.floor(0.9 * 8 * GIB) + SHAPE.other - SHAPE.pool
    assert over > 0
    assert outcome.worst_host_share == 2 / 4
    assert outcome.violation_share == 3 / 8
    assert outcome.vm_violation_minutes == 3 * 11 * 5.0
    assert outcome.swapped_gib_hours == pytest.approx(3 * over / GIB / 12)
    assert outcome.storm_violation_share is None


def test_violations_in_storms_are_a_share_of_the_storms() -> None:
    made = fleet([8 * GIB] * 11, 0.1, steps=5)
    storms = np.array([False, True, True, False, False])
    outcome = simulate(replace(made, stormy=np.ones(11, dtype=bool), storms=storms), Static("static", 1.5), PLANNER)
    assert outcome.storm_violation_share == 1.0
    assert outcome.violation_share == 2 / 5
    calm = simulate(replace(made, stormy=np.zeros(11, dtype=bool), storms=storms), Static("static", 1.5), PLANNER)
    assert calm.storm_violation_share == 0.0


def test_what_was_touched_on_a_sticky_fleet_stays_touched() -> None:
    made = fleet([8 * GIB] * 7, 0.0, steps=5)
    made = replace(made, levels=np.array([[0.9], [0.2], [0.7], [0.1], [0.1]]))
    plain, sticky = (simulate(replace(made, sticky=one), NOMINAL, PLANNER).series.demand for one in (False, True))
    # It comes in the first step and is first seen in the second.
    assert [round((now - SHAPE.other) / (56 * GIB), 2) for now in plain] == [0.0, 0.2, 0.7, 0.1, 0.1]
    assert [round((now - SHAPE.other) / (56 * GIB), 2) for now in sticky] == [0.0, 0.2, 0.7, 0.7, 0.7]


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6), sticky=st.booleans())
def test_the_course_that_the_oracle_sees_is_the_one_that_comes(seed: int, sticky: bool) -> None:
    made = replace(any_fleet(seed), sticky=sticky)
    total = np.zeros(made.steps)
    for vm in range(made.vms):
        course = made.course(vm)
        total[made.arrival[vm] + 1 :][: course.size] += course
    everywhere = simulate(replace(made, hosts=1, shape=replace(SHAPE, swap=2**60)), Static("all", 1e6), PLANNER)
    assert np.array_equal(everywhere.series.demand, total + SHAPE.other)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6), strategy=st.sampled_from(Strategy), sticky=st.booleans())
def test_the_oracle_never_violates_and_refuses_nobody_who_fits(seed: int, strategy: Strategy, sticky: bool) -> None:
    made = replace(any_fleet(seed), sticky=sticky)
    outcome = simulate(made, Oracle("oracle"), PLANNER, strategy=strategy)
    assert (outcome.violation_minutes, outcome.oom_events) == (0.0, 0)
    alone = [vm for vm in range(made.vms) if made.course(vm).max(initial=0.0) <= USABLE]
    roomy = simulate(replace(made, hosts=len(alone) + 1), Oracle("oracle"), PLANNER, strategy=strategy)
    assert roomy.admitted == len(alone)


def test_the_oracle_knows_who_goes_before_the_other_grows() -> None:
    # Two VMs of the whole host: one uses it in the first half and goes, the other in the second.
    made = fleet([48 * GIB] * 3, 0.0, steps=8)
    levels = np.array([[0.9, 0.1]] * 4 + [[0.9, 0.9]] * 4)
    made = replace(made, row=np.array([0, 1, 1]), levels=levels, departure=np.array([4, 9, 9]))
    outcome = simulate(made, Oracle("oracle"), PLANNER)
    assert (outcome.admitted, outcome.violation_minutes) == (2, 0.0)


def test_who_refuses_large_vms_has_not_placed_the_same() -> None:
    made = fleet([32 * GIB] * 2 + [1 * GIB] * 20, 0.1)
    outcome = simulate(made, NOMINAL, PLANNER)
    assert outcome.admitted == 21
    assert outcome.placed_share == pytest.approx(52 / 84)
    # One that no host could take by flavors counts for nobody.
    larger = replace(fleet([1 * GIB] * 4 + [512 * GIB], 0.01))
    assert simulate(larger, NOMINAL, PLANNER).placed_share == 1.0


def test_the_fewest_hosts_place_what_one_less_does_not() -> None:
    made = fleet([4 * GIB] * 100, 0.1, hosts=2)
    found = needed(made, NOMINAL, PLANNER)
    assert found.hosts == math.ceil(98 / (USABLE // (4 * GIB)))
    assert found.placed_share >= 0.98
    assert simulate(replace(made, hosts=found.hosts - 1), NOMINAL, PLANNER).placed_share < 0.98
    assert needed(replace(made, hosts=40), NOMINAL, PLANNER) == found
    never = replace(fleet([4 * GIB] * 4, 0.1), arrival=np.arange(4), departure=np.arange(4) + 1)
    assert needed(never, Static("none", 0.01), PLANNER).placed_share == 0.0


def test_a_share_of_the_oracles_gain_is_none_where_vms_pay_for_it() -> None:
    made = fleet([8 * GIB] * 20, 0.5, steps=6)
    quiet = replace(made, levels=np.array([[0.5], [0.5], [0.3], [0.3], [0.3], [0.3]]))
    policies = parse(["nominal", "static:1.2", "static:2.5", "oracle"], PLANNER)
    outcomes = compare(quiet, policies, PLANNER, processes=1)
    gains = memory_gains(outcomes)
    nominal, careful, bold, oracle = oracle_shares(outcomes, gains)
    assert (nominal, oracle) == (0.0, 1.0)
    assert 0.0 < careful < 1.0
    assert outcomes[2].violation_share > 0
    assert bold is None
    assert oracle_shares(outcomes[:3], gains[:3]) == [None] * 3


def test_out_of_memory_kills_the_largest_until_the_rest_fits() -> None:
    shape = replace(SHAPE, swap=0)
    made = fleet([2 * GIB, 16 * GIB, 32 * GIB, 20 * GIB, 4 * GIB], 1.0, steps=2, shape=shape)
    outcome = simulate(made, Static("static", 1.5), PLANNER)
    # 74 GiB on 63: without the VM of 32 GiB it fits
    assert (outcome.admitted, outcome.killed, outcome.oom_events) == (5, 1, 1)
    assert outcome.series.placed.tolist() == [5, 4]
    # It ran out, though what is left fits; and who was killed was not placed, nor was its memory.
    assert outcome.violation_share == 0.5
    assert outcome.worst > 0
    assert outcome.placed_share == pytest.approx(42 / 74)
    assert outcome.swapped_gib_hours == 0


def test_most_headroom_spreads_and_first_fit_packs() -> None:
    made = fleet([1 * GIB] * 8, 0.1, hosts=4)
    spread, packed = (Run(made, NOMINAL, PLANNER, strategy=strategy) for strategy in Strategy)
    spread.step(0)
    packed.step(0)
    assert (spread.flavors / GIB).tolist() == [2.0, 2.0, 2.0, 2.0]
    assert (packed.flavors / GIB).tolist() == [8.0, 0.0, 0.0, 0.0]


def test_a_planner_that_knows_the_group_of_a_storm_keeps_its_memory() -> None:
    made = generate(Workload.STORM, hosts=4, days=3, step=1200.0, seed=3)
    (policy,) = parse(["peak:24"], PLANNER)
    unknown, known = (simulate(made, policy, PLANNER, groups=groups) for groups in (False, True))
    assert known.assigned_mean < unknown.assigned_mean


def test_one_seed_gives_one_outcome_in_one_process_or_several() -> None:
    policies = parse(DEFAULT, PLANNER)
    told: list[float] = []
    alone, several = (
        compare(
            generate(Workload.BURSTY, hosts=3, days=1, step=600.0, seed=11),
            policies,
            PLANNER,
            processes=processes,
            progress=told.append,
        )
        for processes in (1, 2)
    )
    assert alone == several
    for one, other in zip(alone, several, strict=True):
        assert np.array_equal(one.series.demand, other.series.demand)
    assert min(told) >= 0.0
    assert max(told) <= 1.0


@pytest.mark.parametrize("name", ["", "best", "nominal:2", "static:0", "static:-1", "peak:", "peak:1h", "quantile:0"])
def test_a_policy_that_is_none_is_refused(name: str) -> None:
    with pytest.raises(PolicyError, match="is no policy: say nominal"):
        parse([name], PLANNER)


def test_a_policy_says_what_the_settings_do_not() -> None:
    settings_of = {one.name: one for one in parse(["peak", "peak:24", "quantile:6", "static", "peak"], PLANNER)}
    assert list(settings_of) == ["peak", "peak:24", "quantile:6", "static"]
    assert settings_of["peak"].settings.peak_half_life == PLANNER.peak_half_life
    assert settings_of["peak:24"].settings.peak_half_life == 86400.0
    assert settings_of["quantile:6"].settings.forecast_window == 6 * 3600.0
    assert settings_of["static"] == Static("static", 1.5)


def held(fleet_: Fleet, *numbers: int) -> Fleet:
    """The same, with these VMs guaranteed."""
    return replace(fleet_, guaranteed=np.isin(np.arange(fleet_.vms), numbers))


def test_what_lacks_is_taken_from_who_is_not_guaranteed() -> None:
    made = fleet([40 * GIB, 40 * GIB], 1.0)
    twice = Static("static:2", 2.0)
    assert simulate(made, twice, PLANNER).guaranteed_minutes is None
    one = simulate(held(made, 0), twice, PLANNER)
    assert one.vm_violation_minutes > 0
    assert one.guaranteed_minutes == 0
    both = simulate(held(made, 0, 1), twice, PLANNER)
    assert both.guaranteed_minutes == both.vm_violation_minutes > 0


def test_who_is_guaranteed_is_killed_last() -> None:
    made = fleet([50 * GIB, 30 * GIB, 30 * GIB], 1.0, shape=replace(SHAPE, swap=8 * GIB))
    twice = Static("static:2", 2.0)
    assert simulate(made, twice, PLANNER).killed == 1  # the largest
    found = simulate(held(made, 0), twice, PLANNER)
    assert (found.killed, found.guaranteed_killed) == (2, 0)
    assert simulate(held(made, 0, 1, 2), twice, PLANNER).guaranteed_killed == 1


def test_the_planner_promises_nothing_of_what_is_guaranteed() -> None:
    idle = any_idle_fleet()
    peak = parse(["peak"], PLANNER)[0]
    free, whole = (
        simulate(one, peak, PLANNER, strategy=Strategy.FIRST_FIT) for one in (idle, held(idle, *range(idle.vms)))
    )
    nominal = simulate(idle, NOMINAL, PLANNER, strategy=Strategy.FIRST_FIT)
    assert free.placed_peak > nominal.placed_peak >= whole.placed_peak


def any_idle_fleet() -> Fleet:
    """VMs of 4 GiB that use next to nothing and ask one after the other."""
    made = fleet([4 * GIB] * 40, 0.05, steps=80)
    return replace(made, arrival=np.arange(40, dtype=np.int64) * 2, departure=np.full(40, 81))


def test_agents_forget_one_host_after_the_other_each_once_in_its_time() -> None:
    made = replace(fleet([GIB], 0.1, steps=49, hosts=4), lose_past_every=12 * 300.0)
    losing = np.array([made.losing(step) for step in range(made.steps)])
    assert not losing[0].any()
    assert losing.sum(axis=0).tolist() == [4, 4, 4, 4]
    assert losing.any(axis=1).sum() == 16  # never two at once
    assert not np.array([fleet([GIB], 0.1).losing(step) for step in range(4)]).any()


def test_a_host_whose_agent_forgot_promises_as_one_that_begins() -> None:
    made = replace(any_idle_fleet(), lose_past_every=60 * 300.0)
    run = Run(made, parse(["peak"], PLANNER)[0], PLANNER)
    for step in range(60):
        run.step(step)
    assigned = (run.table["memory"] + PLANNER.overhead).sum()
    nominal = max(0.0, SHAPE.pool - PLANNER.reserve_of(SHAPE.pool) - assigned)
    before = run.room.copy()
    assert before[0] > nominal
    assert made.losing(60)[0]
    run.step(60)
    assert run.room[0] <= nominal
    assert (run.table["born"] == 60 * 300.0).all()
    often, never = (
        simulate(replace(made, lose_past_every=seconds), parse(["peak"], PLANNER)[0], PLANNER)
        for seconds in (1500.0, 0.0)
    )
    assert often.placed_mean < never.placed_mean


def test_a_share_of_the_vms_is_guaranteed_and_the_same_ones_each_time() -> None:
    made = generate(Workload.STORM, hosts=4, days=2.0, step=1800.0, seed=3, shape=SHAPE)
    found = with_guaranteed(made, 0.2, 3)
    assert 0.1 < found.guaranteed.mean() < 0.3
    assert (found.guaranteed == with_guaranteed(made, 0.2, 3).guaranteed).all()
    assert not with_guaranteed(made, 0.0, 3).guaranteed.any()
    assert with_guaranteed(made, 1.0, 3).guaranteed.all()
