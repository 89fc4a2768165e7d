from __future__ import annotations

import pytest

from memhint.kernel.errors import InterfaceMissing
from memhint.kernel.host import observe_host, read_memory
from memhint.kernel.root import PAGE_SIZE, KernelRoot
from memhint.objects.gap import GapReason
from memhint.objects.host import HugeActivity, Scope, SwapActivity
from memhint.objects.units import GIB, MIB

from . import recorded
from .fake_root import FakeRoot
from .test_memcg import V1, V2, v1, v2


def test_a_whole_host_has_no_gaps(fake: FakeRoot) -> None:
    seen = observe_host(fake.host().kernel, 99.5, memory_cgroup=None, pressure_cgroup=None, page_size=4096)
    assert seen.gaps == ()
    assert seen.at == 99.5
    assert seen.memory.scope is Scope.MACHINE
    assert seen.pressure is not None
    assert seen.swap == SwapActivity(17 * 4096, 4099 * 4096)
    assert seen.ksm_saving == (4000 + 250) * 4096
    assert seen.thp is not None
    assert seen.oom_kills == 2
    assert seen.hugetlb_bytes == 16 * MIB
    assert [node.node for node in seen.numa] == [0]
    assert seen.huge == HugeActivity(746, 31, 40, 9, 5, 12, collapse_failed=4)
    assert seen.free_huge == {0: (2 * 2 + 1 + 2 + 733 * 2 + 3 + 2) * 2 * MIB, 1: 0}


def test_how_far_khugepaged_has_come_is_told_where_it_is_there(fake: FakeRoot) -> None:
    folder = "sys/kernel/mm/transparent_hugepage/khugepaged"
    fake.host().write(f"{folder}/full_scans", "7\n").write(f"{folder}/pages_collapsed", "41\n")
    seen = observe_host(fake.kernel, 0.0).huge
    expected = HugeActivity(746, 31, 40, 9, 5, 12, khugepaged_rounds=7, khugepaged_collapsed=41, collapse_failed=4)
    assert seen == expected


def test_what_the_kernel_keeps_free_of_a_node_is_told_and_is_a_gap_by_itself(fake: FakeRoot) -> None:
    zone = "Node 0, zone Normal\n  low 3\n  high 5\n  managed 1000\n  protection: (0, 0)\n"
    seen = observe_host(fake.host().write("proc/zoneinfo", zone * 2).kernel, 0.0)
    assert [node.kept for node in seen.numa] == [2 * 5 * PAGE_SIZE]
    seen = observe_host(fake.write("proc/zoneinfo", zone.replace("5", "x")).kernel, 0.0)
    assert [gap.what for gap in seen.gaps] == ["watermarks"]
    assert [node.kept for node in seen.numa] == [0]


def test_without_memory_there_is_no_observation(fake: FakeRoot) -> None:
    with pytest.raises(InterfaceMissing):
        observe_host(fake.host().remove("proc/meminfo").kernel, 0.0)


def test_each_missing_part_is_a_gap_of_its_name(fake: FakeRoot) -> None:
    seen = observe_host(fake.write("proc/meminfo", recorded.MEMINFO).kernel, 0.0)
    assert {gap.what for gap in seen.gaps} == {"pressure", "swap", "ksm", "thp", "oom_kills", "numa"} | {
        "huge_activity",
        "free_huge",
    }
    assert {gap.reason for gap in seen.gaps} == {GapReason.UNSUPPORTED}
    assert (seen.pressure, seen.swap, seen.ksm, seen.thp, seen.oom_kills) == (None, None, None, None, None)
    assert (seen.hugetlb, seen.numa) == ((), ())


def test_a_part_without_sense_is_a_malformed_gap_and_the_others_stay(fake: FakeRoot) -> None:
    seen = observe_host(fake.host().write("sys/kernel/mm/ksm/run", "x").kernel, 0.0)
    assert [(gap.what, gap.reason) for gap in seen.gaps] == [("ksm", GapReason.MALFORMED)]
    assert seen.pressure is not None


def test_a_broken_hugetlb_pool_is_a_gap(fake: FakeRoot) -> None:
    seen = observe_host(fake.host().remove("sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages").kernel, 0.0)
    assert [gap.what for gap in seen.gaps] == ["hugetlb"]


@pytest.mark.parametrize(("line", "taken"), [("Hugetlb:        2097152 kB", 2 * GIB), ("", 0)])
def test_the_memory_of_pools_that_cannot_be_read_is_nobody_elses(fake: FakeRoot, line: str, taken: int) -> None:
    text = recorded.MEMINFO.replace("Hugetlb:               0 kB", line)
    fake.host().write("proc/meminfo", text).write("sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "x")
    seen = observe_host(fake.kernel, 0.0)
    assert [(gap.what, gap.reason) for gap in seen.gaps] == [("hugetlb", GapReason.MALFORMED)]
    assert seen.hugetlb_bytes == taken
    assert seen.pool == seen.memory.total - taken


def test_a_memory_cgroup_alone_keeps_the_machines_pressure(fake: FakeRoot) -> None:
    seen = observe_host(v1(fake.host()).kernel, 0.0, memory_cgroup=V1)
    assert (seen.memory.scope, seen.memory.total) == (Scope.CGROUP, 3 * GIB)
    assert seen.oom_kills == 4
    assert seen.pressure is not None
    assert seen.pressure.scope is Scope.MACHINE


def test_a_pressure_cgroup_gives_its_own_pressure(fake: FakeRoot) -> None:
    v2(fake.host()).write(f"{V2}/memory.pressure", recorded.PRESSURE)
    seen = observe_host(fake.kernel, 0.0, memory_cgroup=V2, pressure_cgroup=V2)
    assert seen.pressure is not None
    assert seen.pressure.scope is Scope.CGROUP


def test_a_pressure_cgroup_without_pressure_is_a_gap_not_the_machines(fake: FakeRoot) -> None:
    seen = observe_host(v2(fake.host()).kernel, 0.0, memory_cgroup=V2, pressure_cgroup=V2)
    assert seen.pressure is None
    assert [gap.what for gap in seen.gaps] == ["pressure"]


def test_a_cgroup_that_counts_no_swapping_shows_the_machines(fake: FakeRoot) -> None:
    seen = observe_host(v1(fake.host()).kernel, 0.0, memory_cgroup=V1, page_size=4096)
    assert seen.swap == SwapActivity(17 * 4096, 4099 * 4096)


def test_a_cgroup_that_counts_swapping_shows_its_own(fake: FakeRoot) -> None:
    v2(fake.host()).write(
        f"{V2}/memory.stat", "inactive_file 0\nactive_file 0\nslab_reclaimable 0\npswpin 1\npswpout 2\n"
    )
    assert observe_host(fake.kernel, 0.0, memory_cgroup=V2, page_size=4096).swap == SwapActivity(4096, 8192)


def test_a_memory_cgroup_that_is_not_there_is_no_observation(fake: FakeRoot) -> None:
    with pytest.raises(InterfaceMissing):
        observe_host(fake.host().kernel, 0.0, memory_cgroup=V2)


def test_real_machine_observation() -> None:
    seen = observe_host(KernelRoot(), 0.0)
    assert 0 < seen.memory.available <= seen.memory.total
    assert 0 <= seen.memory.swap_used <= seen.memory.swap_total
    assert seen.page_size == PAGE_SIZE
    # a kernel may lack any of them, and none may be unreadable or make no sense
    assert {gap.reason for gap in seen.gaps} <= {GapReason.UNSUPPORTED}
    assert read_memory(KernelRoot()).total == seen.memory.total
