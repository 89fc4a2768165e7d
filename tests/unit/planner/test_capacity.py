"""The capacity formula: named edge cases, and the properties that operators rely on."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memhint.objects.plan import Bound, Demand, DemandReason
from memhint.objects.units import GIB, MIB
from memhint.planner.capacity import Sums, capacity, spare
from memhint.planner.settings import PlannerSettings

SETTINGS = PlannerSettings(reserve=1 * GIB, reserve_percent=0.0, period=10, lever_latency=10, storm_percent=0)
IDLE_HOST = Sums(pool=64 * GIB, available=63 * GIB, resident=0, ksm_saving=0, other=0, swap=64 * GIB, fault_in_rate=0.0)


def vm(assigned: int, demand: int, reason: DemandReason = DemandReason.FORECAST) -> Demand:
    return Demand("", assigned, min(demand, assigned), demand, reason)


def test_an_empty_host_promises_all_but_its_reserve() -> None:
    found = capacity(IDLE_HOST, [], SETTINGS)
    assert (found.headroom, found.bound) == (62 * GIB, Bound.NOW)


def test_without_swap_nothing_is_promised_that_could_not_be_backed() -> None:
    sums = replace(IDLE_HOST, swap=0, resident=2 * GIB, available=61 * GIB)
    found = capacity(sums, [vm(32 * GIB, 1 * GIB), vm(32 * GIB, 1 * GIB)], SETTINGS)
    assert found.back == -1 * GIB
    assert (found.headroom, found.bound) == (0, Bound.BACK)


def test_allow_unbacked_is_counted_as_backing() -> None:
    sums = replace(IDLE_HOST, swap=0, resident=2 * GIB, available=61 * GIB)
    allowed = replace(SETTINGS, allow_unbacked=5 * GIB)
    assert capacity(sums, [vm(32 * GIB, 1 * GIB), vm(32 * GIB, 1 * GIB)], allowed).headroom == 4 * GIB


def test_ksm_saving_is_taken_off_what_is_free_now() -> None:
    sums = replace(IDLE_HOST, ksm_saving=10 * GIB)
    assert capacity(sums, [], SETTINGS).now == 52 * GIB


def test_one_vm_larger_than_half_the_host_keeps_its_way_back_free() -> None:
    sums = replace(IDLE_HOST, resident=1 * GIB, available=62 * GIB)
    found = capacity(sums, [vm(40 * GIB, 1 * GIB)], SETTINGS)
    assert found.spare == 39 * GIB
    assert found.model == 64 * GIB - 1 * GIB - 1 * GIB - 39 * GIB


def test_huge_page_vms_leave_every_sum() -> None:
    outside = vm(16 * GIB, 0, DemandReason.OUTSIDE)
    assert capacity(IDLE_HOST, [outside], SETTINGS) == capacity(IDLE_HOST, [], SETTINGS)


def test_spare_follows_a_fault_in_storm_but_not_beyond_what_can_come() -> None:
    demands = [vm(4 * GIB, 1 * GIB), vm(4 * GIB, 1 * GIB)]
    assert spare(demands, 0.0, SETTINGS) == 3 * GIB
    assert spare(demands, 200.0 * MIB, SETTINGS) == 4000 * MIB
    assert spare(demands, 10.0 * GIB, SETTINGS) == 6 * GIB


def test_a_group_grows_together() -> None:
    web = [replace(vm(4 * GIB, 1 * GIB), group="web") for _ in range(3)]
    other = vm(8 * GIB, 4 * GIB)
    assert spare([*web, other], 0.0, SETTINGS) == 9 * GIB
    assert spare([*web, other], 0.0, replace(SETTINGS, spare_for_group=False)) == 4 * GIB


def test_the_maximum_ratio_bounds_what_is_promised_in_all() -> None:
    sums = replace(IDLE_HOST, resident=1 * GIB, available=62 * GIB)
    found = capacity(sums, [vm(30 * GIB, 1 * GIB)], replace(SETTINGS, max_ratio=0.6))
    assert (found.ceiling, found.bound) == (int(0.6 * 63 * GIB) - 30 * GIB, Bound.RATIO)
    assert found.headroom == found.ceiling


def test_the_tightest_node_bounds_where_vms_are_bound_to_one() -> None:
    found = capacity(replace(IDLE_HOST, node=3 * GIB), [], SETTINGS)
    assert (found.headroom, found.bound) == (3 * GIB, Bound.NODE)
    assert capacity(replace(IDLE_HOST, node=-3 * GIB), [], SETTINGS).headroom == 0


def test_nominal_slots_count_assigned_memory_only() -> None:
    found = capacity(replace(IDLE_HOST, resident=2 * GIB, available=61 * GIB), [vm(60 * GIB, 2 * GIB)], SETTINGS)
    assert found.nominal_slots(1 * GIB) == 3
    assert found.slots(1 * GIB) == 2  # of 61 GiB available, 1 is reserve and 58 are the VM's own way back


sizes = st.integers(0, 512 * GIB)
sums_strategy = st.builds(
    Sums,
    pool=sizes,
    available=sizes,
    resident=sizes,
    ksm_saving=sizes,
    other=sizes,
    swap=sizes,
    fault_in_rate=st.floats(0, 1e12),
    node=st.integers(-64 * GIB, 512 * GIB) | st.none(),
)
demand_strategy = st.tuples(st.integers(1, 64 * GIB), st.floats(0, 1)).map(lambda v: vm(v[0], int(v[0] * v[1])))
demands_strategy = st.lists(demand_strategy, max_size=8)


@given(sums_strategy, demands_strategy)
def test_everything_promised_could_be_backed(sums: Sums, demands: list[Demand]) -> None:
    found = capacity(sums, demands, SETTINGS)
    assert found.headroom >= 0
    if found.headroom:
        backed = sums.pool - found.reserve - sums.other + sums.swap
        assert sum(one.assigned for one in demands) + found.headroom <= backed


@pytest.mark.parametrize("name", ["ksm_saving", "other", "fault_in_rate"])
@given(sums=sums_strategy, demands=demands_strategy, more=st.integers(1, 64 * GIB))
def test_more_of_it_never_raises_the_headroom(name: str, sums: Sums, demands: list[Demand], more: int) -> None:
    grown = replace(sums, **{name: getattr(sums, name) + more})
    assert capacity(grown, demands, SETTINGS).headroom <= capacity(sums, demands, SETTINGS).headroom


@pytest.mark.parametrize("name", ["pool", "available", "swap"])
@given(sums=sums_strategy, demands=demands_strategy, more=st.integers(1, 64 * GIB))
def test_more_of_it_never_lowers_the_headroom(name: str, sums: Sums, demands: list[Demand], more: int) -> None:
    grown = replace(sums, **{name: getattr(sums, name) + more})
    assert capacity(grown, demands, SETTINGS).headroom >= capacity(sums, demands, SETTINGS).headroom


@given(sums=sums_strategy, demands=demands_strategy, new=demand_strategy)
def test_one_more_vm_never_raises_the_headroom(sums: Sums, demands: list[Demand], new: Demand) -> None:
    with_it = capacity(sums, [*demands, new], SETTINGS).headroom
    # Its own distance to its full size may be covered by the largest one's: the spare then stays, never shrinks.
    assert with_it <= capacity(sums, demands, SETTINGS).headroom
