"""What the nodes leave that VMs are bound to."""

from __future__ import annotations

from dataclasses import replace

import pytest

from memhint.objects.gap import Gap, GapReason
from memhint.objects.host import NumaNode
from memhint.objects.units import GIB
from memhint.planner.nodes import tightest
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
