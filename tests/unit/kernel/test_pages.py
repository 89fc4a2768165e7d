"""Huge pages of both kinds, and NUMA nodes."""

from __future__ import annotations

import pytest

from memhint.kernel.errors import InterfaceMalformed, InterfaceMissing
from memhint.kernel.hugetlb import hugetlb_pools
from memhint.kernel.numa import numa_nodes
from memhint.kernel.thp import read_thp
from memhint.objects.host import HugetlbPool, NumaNode, Thp
from memhint.objects.units import GIB, KIB, MIB

from . import recorded
from .fake_root import FakeRoot

HUGE = "sys/kernel/mm/hugepages"
THP = "sys/kernel/mm/transparent_hugepage"
NODES = "sys/devices/system/node"


def test_thp_is_the_chosen_words(fake: FakeRoot) -> None:
    assert read_thp(fake.host().write(f"{THP}/defrag", "always [defer+madvise] never\n").kernel) == Thp(
        enabled="madvise", defrag="defer+madvise"
    )


def test_a_kernel_without_thp_is_missing(fake: FakeRoot) -> None:
    with pytest.raises(InterfaceMissing):
        read_thp(fake.kernel)


@pytest.mark.parametrize("text", ["", "always madvise never", "[always] [never]", "[]"])
def test_thp_without_one_choice_is_malformed(fake: FakeRoot, text: str) -> None:
    with pytest.raises(InterfaceMalformed):
        read_thp(fake.host().write(f"{THP}/enabled", text).kernel)


def test_hugetlb_pools_by_size(fake: FakeRoot) -> None:
    for size, pages, free in ((1048576, 2, 1), (2048, 512, 500)):
        fake.write(f"{HUGE}/hugepages-{size}kB/nr_hugepages", f"{pages}\n")
        fake.write(f"{HUGE}/hugepages-{size}kB/free_hugepages", f"{free}\n")
    fake.write(f"{HUGE}/other", "")
    assert hugetlb_pools(fake.kernel) == (HugetlbPool(2 * MIB, 512, 500), HugetlbPool(GIB, 2, 1))


def test_a_kernel_without_hugetlb_has_no_pools(fake: FakeRoot) -> None:
    assert hugetlb_pools(fake.kernel) == ()


def test_a_pool_without_its_files_is_missing_not_empty(fake: FakeRoot) -> None:
    (fake.path / HUGE / "hugepages-2048kB").mkdir(parents=True)
    with pytest.raises(InterfaceMissing):
        hugetlb_pools(fake.kernel)


def test_numa_nodes_are_sorted_by_number(fake: FakeRoot) -> None:
    for node in (0, 2, 10):
        text = recorded.NODE_MEMINFO.replace("Node 0", f"Node {node}")
        fake.write(f"{NODES}/node{node}/meminfo", text)
    fake.write(f"{NODES}/possible", "0-10\n")
    nodes = numa_nodes(fake.kernel)
    assert [node.node for node in nodes] == [0, 2, 10]
    assert nodes[0] == NumaNode(0, 16284748 * KIB, 4173348 * KIB)


def test_pools_of_huge_pages_of_all_sizes_are_a_part_of_a_node_s_memory(fake: FakeRoot) -> None:
    fake.write(f"{NODES}/node0/meminfo", recorded.NODE_MEMINFO)
    for size, pages in ((2048, 10), (1048576, 3)):
        fake.write(f"{NODES}/node0/hugepages/hugepages-{size}kB/nr_hugepages", f"{pages}\n")
    (node,) = numa_nodes(fake.kernel)
    assert node.hugetlb == 10 * 2048 * KIB + 3 * 1048576 * KIB
    assert node.pool == node.total - node.hugetlb


def test_a_kernel_without_numa_is_missing(fake: FakeRoot) -> None:
    with pytest.raises(InterfaceMissing):
        numa_nodes(fake.kernel)


def test_a_node_with_an_empty_meminfo_is_malformed(fake: FakeRoot) -> None:
    with pytest.raises(InterfaceMalformed):
        numa_nodes(fake.write(f"{NODES}/node0/meminfo", "").kernel)
