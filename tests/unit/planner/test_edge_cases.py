"""Edge cases by name, through the whole plan."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from memhint.objects.domain import DomainState
from memhint.objects.gap import Gap, GapReason
from memhint.objects.host import NumaNode
from memhint.objects.plan import Bound, DemandReason, PredictorName
from memhint.objects.units import GIB, MIB
from memhint.planner.earned_ratio import evidence
from memhint.planner.plan import Planned, plan
from memhint.planner.state import PlannerState, start
from tests.unit.planner.worlds import LATER, PAGE, SETTINGS, Vm, World, capacity_of, earned_by

OVERHEAD = SETTINGS.overhead
IDLE = Vm(8 * GIB, 1 * GIB, 1 * GIB)
EMPTY = World((), free=62 * GIB)


def test_an_empty_host_promises_what_is_free_less_its_reserve() -> None:
    found = capacity_of(EMPTY)
    assert (found.pool, found.other, found.assigned, found.spare) == (64 * GIB, 2 * GIB, 0, 0)
    assert found.headroom == 61 * GIB


@pytest.mark.parametrize("predictor", PredictorName)
def test_one_vm_larger_than_half_the_host_keeps_its_way_back_free(predictor: PredictorName) -> None:
    found = capacity_of(World((Vm(40 * GIB, 1 * GIB, 1 * GIB),), free=61 * GIB), predictor=predictor)
    assert found.spare == 39 * GIB + OVERHEAD
    assert found.headroom == 61 * GIB - 1 * GIB - found.spare


def test_many_new_vms_count_in_full_and_one_by_one_less() -> None:
    world = World(tuple(replace(IDLE, new=True) for _ in range(30)), free=62 * GIB)
    settings = replace(SETTINGS, max_ratio=100.0)
    planned = world.look(world.first_look(settings), LATER, settings)
    assert planned.plan.capacity.want == planned.plan.capacity.assigned
    assert {one.reason for one in planned.plan.demands} == {DemandReason.NEW}
    assert planned.plan.capacity.headroom == 0
    half = world.look(planned.state, LATER + settings.new_vm_decay / 2, settings)
    assert half.plan.capacity.want == pytest.approx(30 * (9 * GIB + OVERHEAD) / 2, rel=1e-3)
    old = world.look(half.state, LATER + settings.new_vm_decay, settings)
    assert old.plan.capacity.want == 30 * GIB


@pytest.mark.parametrize("state", [DomainState.SHUTOFF, DomainState.PAUSED])
def test_stopped_and_paused_vms_count_in_full(state: DomainState) -> None:
    running = capacity_of(World((IDLE, IDLE), free=60 * GIB))
    found = capacity_of(World((replace(IDLE, state=state), IDLE), free=60 * GIB))
    assert found.want == running.want + 7 * GIB + OVERHEAD
    assert found.headroom < running.headroom


def test_an_incoming_migration_counts_in_full_on_the_host_it_goes_to() -> None:
    arriving = replace(IDLE, rss=200 * MIB, state=DomainState.INCOMING, new=True)
    found = capacity_of(World((arriving,), free=62 * GIB))
    assert found.want == found.assigned == 8 * GIB + OVERHEAD


def test_an_outgoing_migration_counts_on_the_host_it_leaves_until_it_is_gone() -> None:
    leaving = World((IDLE, IDLE), free=60 * GIB)
    before = capacity_of(leaving)
    handed_over = capacity_of(replace(leaving, vms=(replace(IDLE, state=DomainState.PAUSED), IDLE)))
    gone = capacity_of(World((IDLE,), free=61 * GIB))
    assert handed_over.headroom < before.headroom < gone.headroom


def test_hugetlb_pools_and_their_vms_leave_every_sum() -> None:
    on_huge_pages = Vm(16 * GIB, 0, 0, facts={"hugepages": True, "hugetlb": 16 * GIB})
    found = capacity_of(replace(EMPTY, vms=(on_huge_pages,), hugetlb=16 * GIB))
    assert found == capacity_of(EMPTY)


def test_other_work_that_grows_lowers_at_once_and_is_remembered() -> None:
    settings = replace(SETTINGS, other_window=3600.0)
    state = EMPTY.first_look(settings)
    grown = replace(EMPTY, free=32 * GIB, other=32 * GIB)
    busy = grown.look(state, LATER, settings)
    calm = EMPTY.look(busy.state, LATER + 60, settings)
    assert busy.plan.capacity.headroom == 31 * GIB
    assert (calm.plan.capacity.headroom, calm.plan.capacity.other) == (31 * GIB, 32 * GIB)
    later = EMPTY.look(calm.state, LATER + 3700, settings)
    assert later.plan.capacity.headroom == 61 * GIB


def test_after_a_storm_the_peaks_fade_and_the_capacity_comes_back_slowly() -> None:
    settings = replace(
        SETTINGS,
        peak_half_life=600.0,
        raise_percent_per_minute=5.0,
        raise_hysteresis_percent=1.0,
        fault_in_window=600.0,
    )
    vms = tuple(replace(IDLE, rss=8 * GIB) for _ in range(6))
    calm, storm = World((IDLE,) * 6, free=56 * GIB), World(vms, free=14 * GIB)
    state, seen = start(settings), []
    for minute in range(240):
        world = storm if 100 <= minute < 110 else calm
        planned = world.look(state, minute * 60.0, settings)
        state = planned.state
        seen.append(planned.plan.capacity)
    assert seen[100].headroom < seen[99].headroom / 2  # within the cycle that sees it
    recovery = [one.headroom for one in seen[110:]]
    assert all(after >= before for before, after in pairwise(recovery))
    steps = [after - before for before, after in pairwise(recovery)]
    assert max(steps) <= calm.total * 0.05
    assert recovery[-1] > 0.9 * seen[99].headroom


def test_with_ksm_on_nothing_more_is_promised_than_with_every_page_apart() -> None:
    vms = (replace(IDLE, rss=4 * GIB), replace(IDLE, rss=4 * GIB))
    apart = World(vms, free=54 * GIB)
    merged = replace(apart, merged=3 * GIB, free=57 * GIB)
    assert capacity_of(merged).headroom == capacity_of(apart).headroom


MERGED = (replace(IDLE, rss=4 * GIB), replace(IDLE, rss=4 * GIB))


def without_ksm(world: World, state: PlannerState, now: float, merging: int | None, reason: GapReason) -> Planned:
    """The world's next look, in which KSM could not be read, and each VM's process says that so much is merged."""
    domains = [vm.seen(number, vm.rss, vm.swap) for number, vm in enumerate(world.vms)]
    domains = [replace(one, process=replace(one.process, ksm_merging=merging)) for one in domains]
    host = replace(world.host(world.free), ksm=None, gaps=(Gap("ksm", reason),))
    return plan(host, domains, world.policies(), state, now, SETTINGS)


@pytest.mark.parametrize("merging", [2 * GIB, None])
@pytest.mark.parametrize("reason", [GapReason.UNREADABLE, GapReason.MALFORMED])
@pytest.mark.parametrize("known", [False, True])
def test_while_ksm_cannot_be_read_no_more_is_promised_than_with_it(
    known: bool, reason: GapReason, merging: int | None
) -> None:
    merged = World(MERGED, free=57 * GIB, merged=3 * GIB)
    state = merged.first_look(SETTINGS)
    if not known:
        state = replace(state, ksm_saving=0)
    read = merged.look(state, LATER, SETTINGS).plan.capacity
    found = without_ksm(merged, state, LATER, merging, reason)
    assert (found.plan.capacity.model, found.plan.capacity.now) <= (read.model, read.now)
    assert found.plan.capacity.back <= read.back
    assert found.plan.capacity.headroom <= read.headroom
    # Nor once the hour is forgotten in which it was read.
    later = without_ksm(merged, found.state, LATER + 2 * SETTINGS.other_window, merging, reason).plan.capacity
    assert later.headroom <= read.headroom


def test_what_ksm_saved_when_it_was_read_last_counts_on_where_processes_say_less() -> None:
    merged = World(MERGED, free=57 * GIB, merged=2 * GIB)
    state = merged.first_look(SETTINGS)
    for now in (LATER, LATER + 60):
        found = without_ksm(merged, state, now, 0, GapReason.UNREADABLE)
        assert found.plan.capacity.ksm_saving == 2 * GIB
        state = found.state


@pytest.mark.parametrize("merging", [4 * GIB, None])
def test_one_cycle_without_ksm_costs_the_promise_of_that_cycle_only(merging: int | None) -> None:
    merged = World(MERGED, free=57 * GIB, merged=3 * GIB)
    state = replace(merged.look(merged.first_look(SETTINGS), LATER, SETTINGS).state, earned=earned_by(300))
    unread = without_ksm(merged, state, LATER + 10, merging, GapReason.UNREADABLE)
    assert unread.plan.capacity.headroom < merged.look(state, LATER + 10, SETTINGS).plan.capacity.headroom
    assert evidence(unread.state.earned).share == 300
    assert merged.look(unread.state, LATER + 20, SETTINGS).plan == merged.look(state, LATER + 20, SETTINGS).plan


def test_other_work_is_remembered_while_ksm_cannot_be_read() -> None:
    merged = World(MERGED, free=57 * GIB, merged=3 * GIB)
    state = merged.look(merged.first_look(SETTINGS), LATER, SETTINGS).state
    busy = replace(merged, free=37 * GIB, other=22 * GIB)
    found = without_ksm(busy, state, LATER + 10, 4 * GIB, GapReason.UNREADABLE)
    assert found.plan.capacity.other > 22 * GIB
    assert merged.look(found.state, LATER + 20, SETTINGS).plan.capacity.other == 22 * GIB


def test_a_kernel_without_ksm_saves_nothing() -> None:
    apart = World(MERGED, free=54 * GIB)
    state = apart.first_look(SETTINGS)
    found = without_ksm(apart, state, LATER, None, GapReason.UNSUPPORTED).plan.capacity
    assert (found.ksm_saving, found.headroom) == (0, capacity_of(apart).headroom)


def test_zero_pages_of_ksm_are_counted_once() -> None:
    apart = World((replace(IDLE, rss=4 * GIB),), free=58 * GIB)
    settings = SETTINGS
    state = apart.first_look(settings)
    domain = apart.vms[0].seen(0, 3 * GIB, 0)
    domain = replace(domain, process=replace(domain.process, ksm_zero=1 * GIB))
    host = apart.host(59 * GIB)
    host = replace(host, ksm=replace(host.ksm, pages_sharing=0, zero_pages=1 * GIB // PAGE))
    merged = plan(host, [domain], apart.policies(), state, LATER, settings).plan.capacity
    assert merged.headroom == capacity_of(apart).headroom


def test_a_node_that_a_vm_is_bound_to_bounds_the_host() -> None:
    bound = replace(IDLE, facts={"numa_strict": True, "numa_nodes": (1,)})
    nodes = (NumaNode(0, 32 * GIB, 30 * GIB), NumaNode(1, 32 * GIB, 10 * GIB, file=2 * GIB))
    settings = replace(SETTINGS, node_reserve=1 * GIB, node_reserve_percent=0)
    found = capacity_of(World((bound, IDLE), free=60 * GIB, nodes=nodes), settings)
    assert found.node == 12 * GIB - 1 * GIB - (7 * GIB + OVERHEAD)
    assert (found.headroom, found.bound) == (found.node, Bound.NODE)
    assert capacity_of(World((IDLE, IDLE), free=60 * GIB, nodes=nodes), settings).node is None


def test_another_predictor_than_before_makes_every_vm_new() -> None:
    world = World((IDLE,), free=61 * GIB)
    state = world.first_look(SETTINGS)
    other = replace(SETTINGS, predictor=PredictorName.QUANTILE)
    assert world.look(state, LATER, SETTINGS).plan.demands[0].reason is DemandReason.FORECAST
    assert world.look(state, LATER, other).plan.demands[0].reason is DemandReason.NEW
