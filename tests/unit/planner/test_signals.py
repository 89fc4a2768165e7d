"""Rates between two looks, of the host and of the VMs' cgroup."""

from __future__ import annotations

from dataclasses import replace

from memhint.objects.host import NumaNode, SwapActivity, VmsCgroup
from memhint.objects.units import GIB, MIB
from memhint.planner.signals import Counters, counters_of, sample_of
from tests.unit import builders

SLICE = "/sys/fs/cgroup/machine.slice"
SEEN = builders.host_observation(
    pressure=builders.pressure(some_avg10=45.0),
    swap=SwapActivity(100 * MIB, 0, 400 * MIB),
    vms=VmsCgroup(SLICE, 0, builders.pressure(some_avg10=0.5), swapped_in=10 * MIB, refaulted=20 * MIB),
)
LATER = replace(
    SEEN,
    swap=SwapActivity(200 * MIB, 0, 800 * MIB),
    vms=VmsCgroup(SLICE, 0, builders.pressure(some_avg10=0.5), swapped_in=30 * MIB, refaulted=20 * MIB),
)


def test_the_vms_part_stands_beside_the_hosts() -> None:
    found = sample_of(LATER, 64 * GIB, [], counters_of(SEEN), 10.0)
    assert (found.psi_some, found.swap_in, found.refault) == (45.0, 10 * MIB, 40 * MIB)
    assert (found.vms.psi_some, found.vms.swap_in, found.vms.refault) == (0.5, 2 * MIB, 0.0)


def test_another_cgroup_is_no_successor() -> None:
    before = replace(counters_of(SEEN), vms="/sys/fs/cgroup/elsewhere")
    found = sample_of(LATER, 64 * GIB, [], before, 10.0)
    assert (found.vms.psi_some, found.vms.swap_in, found.vms.refault) == (0.5, None, None)
    assert found.swap_in == 10 * MIB


def test_what_nobody_counts_is_unknown() -> None:
    assert counters_of(replace(SEEN, swap=None, vms=None)) == Counters()
    found = sample_of(replace(LATER, vms=None), 64 * GIB, [], counters_of(SEEN), None)
    assert (found.swap_in, found.vms.psi_some) == (None, None)


def test_memory_of_a_vm_that_is_page_cache_is_not_left() -> None:
    host = replace(SEEN, memory=replace(SEEN.memory, available=32 * GIB))
    filed = builders.domain_observation(
        facts=builders.facts(file_backed=True), process=builders.process(rss=16 * GIB, swap=0)
    )
    assert sample_of(host, 64 * GIB, [], Counters(), None).available == 50.0
    assert sample_of(host, 64 * GIB, [filed], Counters(), None).available == 25.0


def test_the_scarcest_node_is_of_those_that_vms_are_bound_to() -> None:
    nodes = (NumaNode(0, 32 * GIB, 30 * GIB), NumaNode(1, 32 * GIB, 1 * GIB, file=GIB))
    host = replace(SEEN, numa=nodes)
    free = builders.domain_observation()
    assert sample_of(host, 64 * GIB, [free], Counters(), None).left == 62.5
    bound = builders.domain_observation(facts=builders.facts(numa_strict=True, numa_nodes=(1,)))
    assert sample_of(host, 64 * GIB, [free, bound], Counters(), None).left == 6.25
