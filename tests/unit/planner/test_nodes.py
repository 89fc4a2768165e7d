"""What the nodes leave that VMs are bound to."""

from __future__ import annotations

from dataclasses import replace

import pytest

from memhint.objects.gap import Gap, GapReason
from memhint.objects.host import NumaNode
from memhint.objects.units import GIB
from memhint.planner.nodes import scarcest, tightest
from memhint.planner.settings import PlannerSettings
from tests.unit import builders


def test_what_the_kernel_keeps_free_of_a_node_is_not_promised_where_it_is_more_than_the_reserve() -> None:
    settings = PlannerSettings(node_reserve_percent=2.0)
    vm = builders.domain_observation(facts=builders.facts(numa_strict=True, numa_nodes=(0,)))
    demand = builders.demand(demand=0)
    rooms = []
    for kept in (0, GIB, 4 * GIB):
        nodes = (NumaNode(0, 100 * GIB, 10 * GIB, kept=kept), NumaNode(1, 100 * GIB, 90 * GIB))
        rooms.append(tightest(replace(builders.host_observation(), numa=nodes), [vm], [demand], settings))
    assert rooms == [8 * GIB, 8 * GIB, 6 * GIB]


@pytest.mark.parametrize(
    ("reason", "strict", "room"),
    [
        (GapReason.MALFORMED, True, 0),
        (GapReason.UNREADABLE, True, 0),
        (GapReason.UNREADABLE, False, None),
        (GapReason.UNSUPPORTED, True, None),
    ],
)
def test_nothing_is_promised_while_nodes_that_vms_are_bound_to_cannot_be_read(
    reason: GapReason, strict: bool, room: int | None
) -> None:
    vm = builders.domain_observation(facts=builders.facts(numa_strict=strict, numa_nodes=(0,) if strict else ()))
    host = replace(builders.host_observation(), numa=(), gaps=(Gap("numa", reason),))
    assert tightest(host, [vm], [builders.demand(demand=0)], PlannerSettings()) == room


@pytest.mark.parametrize(("strict", "room"), [(True, 0), (False, None)])
def test_while_it_is_not_known_what_the_kernel_keeps_of_a_node_it_has_no_room(strict: bool, room: int | None) -> None:
    vm = builders.domain_observation(facts=builders.facts(numa_strict=strict, numa_nodes=(0,) if strict else ()))
    nodes = (NumaNode(0, 100 * GIB, 90 * GIB), NumaNode(1, 100 * GIB, 12 * GIB))
    host = replace(builders.host_observation(), numa=nodes, gaps=(Gap("watermarks", GapReason.MALFORMED),))
    assert tightest(host, [vm], [builders.demand(demand=0)], PlannerSettings()) == room


def room_beside(*, resident: int, most: tuple[int, ...] = (8 * GIB, 8 * GIB)) -> int | None:
    """What a guest of 16 GiB with a cell on each of two nodes leaves, where 12 GiB of one of them are free."""
    facts = builders.facts(memory=16 * GIB, numa_strict=True, numa_nodes=(0, 1), numa_most=most)
    vm = builders.domain_observation(facts=facts, process=builders.process(rss=resident, swap=0))
    nodes = (NumaNode(0, 100 * GIB, 90 * GIB), NumaNode(1, 100 * GIB, 12 * GIB))
    host = replace(builders.host_observation(), numa=nodes)
    return tightest(host, [vm], [builders.demand(demand=16 * GIB)], PlannerSettings(node_reserve_percent=2.0))


def test_what_a_guest_of_two_cells_still_takes_may_be_all_of_one_cell_s() -> None:
    assert room_beside(resident=8 * GIB) == 2 * GIB  # all of the 8 may be there already that lie on the other node
    assert room_beside(resident=13 * GIB) == 7 * GIB


def test_no_more_comes_to_a_node_than_the_cells_that_are_bound_to_it() -> None:
    assert room_beside(resident=0) == 2 * GIB
    assert room_beside(resident=0, most=(4 * GIB, 12 * GIB)) == -2 * GIB
    assert room_beside(resident=0, most=()) == -6 * GIB  # a report of before that was told


def test_what_unbound_vms_are_still_owed_may_come_to_lie_on_any_node() -> None:
    """Else the same room is promised again to one new VM after the other, and the bound one is killed."""
    bound = builders.domain_observation(
        facts=builders.facts(memory=16 * GIB, numa_strict=True, numa_nodes=(0,)),
        process=builders.process(rss=2 * GIB, swap=0),
    )
    new = builders.domain_observation(facts=builders.facts(memory=20 * GIB), process=builders.process(rss=GIB, swap=0))
    nodes = (NumaNode(0, 100 * GIB, 40 * GIB), NumaNode(1, 100 * GIB, 90 * GIB))
    host, settings = replace(builders.host_observation(), numa=nodes), PlannerSettings(node_reserve_percent=2.0)
    demands = [builders.demand(demand=16 * GIB), builders.demand(demand=20 * GIB)]
    assert tightest(host, [bound], demands[:1], settings) == 24 * GIB
    assert tightest(host, [bound, new], demands, settings) == 5 * GIB
    assert tightest(host, [new], demands[1:], settings) is None


def test_what_pools_of_huge_pages_hold_is_no_part_of_a_node_s_memory() -> None:
    """A node of which most lies in pools would be scarce for good, and its reserve one of memory that nobody has."""
    vm = builders.domain_observation(facts=builders.facts(memory=4 * GIB, numa_strict=True, numa_nodes=(0,)))
    nodes = tuple(NumaNode(node, 128 * GIB, 18 * GIB, hugetlb=96 * GIB) for node in (0, 1))
    host, settings = replace(builders.host_observation(), numa=nodes), PlannerSettings(node_reserve_percent=10.0)
    assert scarcest(host, [vm]) == 100 * 18 / 32
    assert tightest(host, [vm], [builders.demand(demand=0)], settings) == 18 * GIB - int(3.2 * GIB)
    full = replace(host, numa=(replace(nodes[0], free=0, hugetlb=128 * GIB), nodes[1]))
    assert scarcest(full, [vm]) == 100 * 18 / 32, "a node without ordinary memory is none that such a VM lies on"


def test_merged_memory_may_come_back_on_any_node() -> None:
    vm = builders.domain_observation(facts=builders.facts(numa_strict=True, numa_nodes=(0,)))
    nodes = (NumaNode(0, 100 * GIB, 45 * GIB), NumaNode(1, 100 * GIB, 90 * GIB))
    host = replace(builders.host_observation(), numa=nodes)
    settings = PlannerSettings(node_reserve_percent=5.0)
    demands = [builders.demand(demand=0)]
    assert tightest(host, [vm], demands, settings) == 40 * GIB
    assert tightest(host, [vm], demands, settings, merged=38 * GIB) == 2 * GIB


def test_page_cache_that_is_a_vms_memory_is_no_room_on_a_node() -> None:
    bound = builders.domain_observation(facts=builders.facts(numa_strict=True, numa_nodes=(0,)))
    filed = builders.domain_observation(
        uuid="filed", facts=builders.facts(file_backed=True), process=builders.process(rss=64 * GIB, swap=0)
    )
    nodes = (NumaNode(0, 100 * GIB, 10 * GIB, file=70 * GIB), NumaNode(1, 100 * GIB, 90 * GIB, file=GIB))
    host = replace(builders.host_observation(), numa=nodes)
    settings = PlannerSettings(node_reserve_percent=5.0)
    demands = [builders.demand(demand=0), builders.demand(demand=0)]
    assert tightest(host, [bound, filed], demands, settings) == 11 * GIB
    assert scarcest(host, [bound, filed]) == 16.0
    both = replace(bound, facts=replace(bound.facts, numa_nodes=(0, 1)))
    assert tightest(host, [both, filed], demands, settings) == 11 * GIB, "no node has less than no page cache"
