"""What nodes still owe to VMs that are bound to them."""

from __future__ import annotations

from typing import Any

import pytest

from memhint.objects.domain import DomainObservation, DomainState
from memhint.objects.units import GIB, MIB
from memhint.planner.owed import owed
from tests.unit import builders

OVERHEAD = 128 * MIB
WHOLE = 16 * GIB + OVERHEAD


def bound(*nodes: int, rss: int | None = 4 * GIB, **facts: Any) -> DomainObservation:
    """A VM of 16 GiB that is bound to these nodes; ``rss`` None: its process was not read."""
    process = builders.process(rss=rss, swap=0) if rss is not None else None
    of = {"memory": 16 * GIB, "numa_strict": True, "numa_nodes": nodes, **facts}
    return builders.domain_observation(facts=builders.facts(**of), process=process)


@pytest.mark.parametrize(
    ("vm", "expected"),
    [
        (bound(0), {0: WHOLE - 4 * GIB, 1: 0}),
        (bound(0, rss=20 * GIB), {0: 0, 1: 0}),
        (bound(0, 1), {0: WHOLE - 4 * GIB, 1: WHOLE - 4 * GIB}),
        (bound(0, 1, numa_most=(GIB, 15 * GIB)), {0: GIB, 1: WHOLE - 4 * GIB}),
        (bound(), {0: WHOLE - 4 * GIB, 1: WHOLE - 4 * GIB}),
        (bound(7), {0: WHOLE - 4 * GIB, 1: WHOLE - 4 * GIB}),
        (bound(0, rss=None), {0: WHOLE, 1: 0}),
        (bound(numa_strict=False), {0: 0, 1: 0}),
        (bound(0, hugepages=True, hugetlb=12 * GIB, rss=GIB), {0: 3 * GIB + OVERHEAD, 1: 0}),
        (bound(0, hugepages=True, hugetlb=16 * GIB, rss=MIB), {0: 0, 1: 0}),
    ],
    ids=["one", "grown", "two", "cells", "unnamed", "gone", "unread", "free", "pools", "outside"],
)
def test_what_a_bound_vm_may_still_take_of_each_node(vm: DomainObservation, expected: dict[int, int]) -> None:
    assert owed([vm], (0, 1), OVERHEAD) == expected


def test_it_is_the_sum_over_all_vms_those_that_do_not_run_with_them() -> None:
    stopped = builders.domain_observation(state=DomainState.SHUTOFF, process=None, facts=bound(1).facts)
    assert owed([bound(0), bound(0, 1), stopped], (0, 1), OVERHEAD) == {
        0: 2 * (WHOLE - 4 * GIB),
        1: WHOLE - 4 * GIB + WHOLE,
    }
