from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from memhint.kernel.errors import InterfaceMalformed, InterfaceMissing
from memhint.kernel.memcg import (
    CgroupVersion,
    cgroup_memory,
    cgroup_oom_kills,
    cgroup_swap_activity,
    detect,
    members,
)
from memhint.kernel.root import READ_AT_MOST, KernelRoot
from memhint.objects.host import HostMemory, Scope, SwapActivity
from memhint.objects.units import GIB, KIB, MIB

from . import recorded
from .fake_root import FakeRoot

UNLIMITED_4K = "9223372036854771712\n"
UNLIMITED_64K = "9223372036854710272\n"
V1 = "/sys/fs/cgroup/memory/vms"
V2 = "/sys/fs/cgroup/vms.slice"
SWAP = 4 * GIB
MACHINE_TOTAL, MACHINE_AVAILABLE = 16 * GIB, 12 * GIB


@pytest.fixture
def host(fake: FakeRoot) -> FakeRoot:
    fake.write("proc/meminfo", f"MemTotal: {MACHINE_TOTAL // KIB} kB\nMemAvailable: {MACHINE_AVAILABLE // KIB} kB\n")
    return fake.write("proc/swaps", recorded.SWAPS_NONE + f"/dev/sda2 partition {SWAP // KIB} {GIB // KIB} -2\n")


def stat_v1(inactive: int, active: int, swap: int | None = 10 * MIB) -> str:
    # the names without total_ leave out the children, and must not be used
    lines = ["cache 1", "swap 1", "inactive_file 1", "active_file 1"]
    lines += [f"total_inactive_file {inactive}", f"total_active_file {active}"]
    return "\n".join(lines + ([f"total_swap {swap}"] if swap is not None else [])) + "\n"


def stat_v2(inactive: int, active: int, slab: int) -> str:
    return f"anon 5\ninactive_file {inactive}\nactive_file {active}\nslab_reclaimable {slab}\n"


def v1(fake: FakeRoot, path: str = V1, *, limit: int | str = 3 * GIB, both: int | str | None = 5 * GIB) -> FakeRoot:
    fake.write(f"{path}/memory.limit_in_bytes", f"{limit}")
    fake.write(f"{path}/memory.usage_in_bytes", f"{2 * GIB}\n")
    fake.write(f"{path}/memory.stat", stat_v1(400 * MIB, 200 * MIB))
    fake.write(f"{path}/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 4\n")
    fake.write(f"{path}/cgroup.procs", "10\n11\n")
    return fake if both is None else fake.write(f"{path}/memory.memsw.limit_in_bytes", f"{both}")


def v2(
    fake: FakeRoot, path: str = V2, *, limit: int | str = 3 * GIB, high: int | str = "max", swap: int | str = GIB
) -> FakeRoot:
    return fake.write_all(
        path,
        {
            "memory.max": f"{limit}\n",
            "memory.high": f"{high}\n",
            "memory.current": f"{2 * GIB}\n",
            "memory.swap.max": f"{swap}\n",
            "memory.swap.current": f"{20 * MIB}\n",
            "memory.stat": stat_v2(400 * MIB, 200 * MIB, 100 * MIB),
            "memory.events": "low 0\nhigh 0\nmax 9\noom 3\noom_kill 2\noom_group_kill 0\n",
            "cgroup.procs": "10\n11\n",
            "cgroup.controllers": "memory\n",
        },
    )


def test_v1_counts_the_rest_of_the_limit_and_a_part_of_the_caches(host: FakeRoot) -> None:
    assert cgroup_memory(v1(host).kernel, V1) == HostMemory(
        scope=Scope.CGROUP,
        total=3 * GIB,
        available=GIB + 400 * MIB + 100 * MIB,
        swap_total=2 * GIB,
        swap_used=10 * MIB,
        swap_free=2 * GIB - 10 * MIB,
    )


def test_v2_counts_half_of_the_reclaimable_slab_too(host: FakeRoot) -> None:
    assert cgroup_memory(v2(host).kernel, V2) == HostMemory(
        scope=Scope.CGROUP,
        total=3 * GIB,
        available=GIB + 400 * MIB + 100 * MIB + 50 * MIB,
        swap_total=GIB,
        swap_used=20 * MIB,
        swap_free=GIB - 20 * MIB,
    )


def test_swap_that_others_have_taken_is_not_free_for_the_cgroup(host: FakeRoot) -> None:
    # 1 of the machine's 4 GiB is used; the cgroup has no limit of its own, and used 20 MiB
    assert cgroup_memory(v2(host, swap="max").kernel, V2).free_swap == 3 * GIB
    host.write("proc/swaps", recorded.SWAPS_NONE + f"/dev/sda2 partition {4 * GIB // KIB} {7 * GIB // 2 // KIB} -2\n")
    assert cgroup_memory(v2(host).kernel, V2).free_swap == GIB // 2


@pytest.mark.parametrize("unlimited", [UNLIMITED_4K, UNLIMITED_64K])
def test_v1_unlimited_is_the_machine(host: FakeRoot, unlimited: str) -> None:
    memory = cgroup_memory(v1(host, limit=unlimited, both=unlimited).kernel, V1)
    assert (memory.total, memory.available, memory.swap_total) == (MACHINE_TOTAL, MACHINE_AVAILABLE, SWAP)


def test_v2_max_is_the_machine(host: FakeRoot) -> None:
    memory = cgroup_memory(v2(host, limit="max", swap="max").kernel, V2)
    assert (memory.total, memory.available, memory.swap_total) == (MACHINE_TOTAL, MACHINE_AVAILABLE, SWAP)


def test_a_limit_above_the_machine_is_the_machine(host: FakeRoot) -> None:
    assert cgroup_memory(v2(host, limit=64 * GIB).kernel, V2).total == MACHINE_TOTAL


@pytest.mark.parametrize("limit", ["max", f"{64 * GIB}"])
def test_what_lies_in_pools_of_huge_pages_no_cgroup_can_have(host: FakeRoot, limit: str) -> None:
    host.write("proc/meminfo", (host.path / "proc/meminfo").read_text() + f"Hugetlb: {GIB // KIB} kB\n")
    assert cgroup_memory(v2(host, limit=limit).kernel, V2).total == MACHINE_TOTAL - GIB
    assert cgroup_memory(v2(host, limit=GIB).kernel, V2).total == GIB


def test_the_high_mark_of_v2_is_a_limit(host: FakeRoot) -> None:
    memory = cgroup_memory(v2(host, high=2 * GIB + 512 * MIB).kernel, V2)
    assert memory.total == 2 * GIB + 512 * MIB


def test_available_is_never_more_than_the_machines(host: FakeRoot) -> None:
    host.write("proc/meminfo", f"MemTotal: {MACHINE_TOTAL // KIB} kB\nMemAvailable: {64 * MIB // KIB} kB\n")
    assert cgroup_memory(v2(host).kernel, V2).available == 64 * MIB


def test_available_is_never_negative(host: FakeRoot) -> None:
    v1(host).write(f"{V1}/memory.usage_in_bytes", f"{4 * GIB}\n").write(f"{V1}/memory.stat", stat_v1(0, 0))
    assert cgroup_memory(host.kernel, V1).available == 0


@pytest.mark.parametrize(
    ("build", "outer", "unlimited", "swap"), [(v1, V1, UNLIMITED_4K, 2 * GIB), (v2, V2, "max", GIB)]
)
def test_the_limit_of_a_parent_bounds_the_budget(
    host: FakeRoot, build: Callable[..., FakeRoot], outer: str, unlimited: str, swap: int
) -> None:
    inner = f"{outer}/inner"
    build(build(host), inner, limit=unlimited)
    host.write(f"{inner}/memory.memsw.limit_in_bytes", unlimited).write(f"{inner}/memory.swap.max", unlimited)
    memory = cgroup_memory(host.kernel, inner)
    assert memory.total == 3 * GIB
    assert memory.available < 2 * GIB
    assert memory.swap_total == swap


def test_what_siblings_use_of_a_parents_limit_is_not_available(host: FakeRoot) -> None:
    inner = f"{V2}/inner"
    v2(host).write(f"{V2}/memory.current", f"{3 * GIB}\n").write(f"{V2}/memory.stat", stat_v2(0, 0, 0))
    v2(host, inner).write(f"{inner}/memory.current", "0\n")
    assert cgroup_memory(host.kernel, inner).available == 0


def test_a_parent_without_a_limit_is_not_asked_for_its_statistics(host: FakeRoot) -> None:
    v2(host, limit="max", swap="max").remove(f"{V2}/memory.stat")
    assert cgroup_memory(v2(host, f"{V2}/inner").kernel, f"{V2}/inner").total == 3 * GIB


def test_a_slash_at_the_end_changes_nothing(host: FakeRoot) -> None:
    assert cgroup_memory(v2(host).kernel, f"{V2}/") == cgroup_memory(host.kernel, V2)


@pytest.mark.parametrize("text", ["0\n", f"{3 * GIB}\n"])
def test_v1_without_room_for_swap_has_none(host: FakeRoot, text: str) -> None:
    memory = cgroup_memory(v1(host, both=text).kernel, V1)
    assert (memory.swap_total, memory.swap_used) == (0, 0)


def test_v1_without_swap_accounting_falls_back_to_the_machine(host: FakeRoot) -> None:
    v1(host, both=None).write(f"{V1}/memory.stat", stat_v1(0, 0, swap=None))
    memory = cgroup_memory(host.kernel, V1)
    assert (memory.swap_total, memory.swap_used) == (SWAP, GIB)


def test_v2_without_swap_accounting_falls_back_to_the_machine(host: FakeRoot) -> None:
    v2(host).remove(f"{V2}/memory.swap.max").remove(f"{V2}/memory.swap.current")
    memory = cgroup_memory(host.kernel, V2)
    assert (memory.swap_total, memory.swap_used) == (SWAP, GIB)


def test_swap_that_only_zram_could_take_is_not_counted(host: FakeRoot) -> None:
    host.write("proc/swaps", recorded.SWAPS_NONE + "/dev/zram0 partition 8388604 100 100\n")
    memory = cgroup_memory(v2(host).kernel, V2)
    assert (memory.swap_total, memory.swap_used) == (0, 0)


def test_the_version_is_known_by_the_files(fake: FakeRoot) -> None:
    assert detect(v1(fake).kernel, V1) is CgroupVersion.V1
    assert detect(v2(fake).kernel, V2) is CgroupVersion.V2


def test_a_cgroup_without_the_memory_controller_is_missing(fake: FakeRoot) -> None:
    fake.write("/sys/fs/cgroup/unified/cgroup.controllers", "\n")
    with pytest.raises(InterfaceMissing):
        cgroup_memory(fake.kernel, "/sys/fs/cgroup/unified")


def test_statistics_without_the_file_pages_are_missing_not_zero(host: FakeRoot) -> None:
    v2(host).write(f"{V2}/memory.stat", "anon 5\n")
    with pytest.raises(InterfaceMissing, match="inactive_file"):
        cgroup_memory(host.kernel, V2)


@pytest.mark.parametrize("text", ["", "-1\n", "lots\n"])
def test_a_limit_without_sense_is_malformed(host: FakeRoot, text: str) -> None:
    with pytest.raises(InterfaceMalformed):
        cgroup_memory(v2(host, limit=text).kernel, V2)


def test_oom_kills_of_either_version(fake: FakeRoot) -> None:
    assert cgroup_oom_kills(v1(fake).kernel, V1) == 4
    assert cgroup_oom_kills(v2(fake).kernel, V2) == 2


def test_oom_kills_that_an_old_kernel_does_not_count_are_missing(fake: FakeRoot) -> None:
    v1(fake).write(f"{V1}/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\n")
    with pytest.raises(InterfaceMissing):
        cgroup_oom_kills(fake.kernel, V1)


def test_swap_activity_of_a_cgroup_is_bytes(fake: FakeRoot) -> None:
    v2(fake).write(f"{V2}/memory.stat", "pswpin 3\npswpout 4\n")
    assert cgroup_swap_activity(fake.kernel, V2, 4096) == SwapActivity(3 * 4096, 4 * 4096)


@pytest.mark.parametrize(("build", "path"), [(v1, V1), (v2, V2)])
def test_swap_activity_that_is_not_counted_by_cgroup_is_missing(
    fake: FakeRoot, build: Callable[[FakeRoot], FakeRoot], path: str
) -> None:
    with pytest.raises(InterfaceMissing, match="pswpin"):
        cgroup_swap_activity(build(fake).kernel, path)


def test_members_are_those_of_the_children_too(fake: FakeRoot) -> None:
    v2(fake).write(f"{V2}/a/cgroup.procs", "12\n").write(f"{V2}/a/b/cgroup.procs", "13\n0\n")
    fake.write(f"{V2}/empty/cgroup.procs", "")
    assert members(fake.kernel, V2) == {10, 11, 12, 13}


def test_members_passes_over_threaded_children(fake: FakeRoot, tmp_path: Path) -> None:
    class ThreadedRoot(KernelRoot):
        def read_text(self, relative: str, limit: int = READ_AT_MOST) -> str:
            if relative.endswith("/vcpu0/cgroup.procs"):
                raise InterfaceMissing(self.path(relative), os.strerror(errno.EOPNOTSUPP))
            return super().read_text(relative, limit)

    v2(fake).write(f"{V2}/a/cgroup.procs", "12\n").write(f"{V2}/a/vcpu0/cgroup.procs", "12\n")
    assert members(ThreadedRoot(tmp_path), V2) == {10, 11, 12}


def test_members_of_a_cgroup_that_is_not_there_is_missing_not_empty(fake: FakeRoot) -> None:
    with pytest.raises(InterfaceMissing):
        members(fake.kernel, V2)


def test_members_without_sense_are_malformed(fake: FakeRoot) -> None:
    with pytest.raises(InterfaceMalformed):
        members(v2(fake).write(f"{V2}/cgroup.procs", "10\n-3\n").kernel, V2)


def own_memory_cgroup() -> str | None:
    """Our own cgroup with a budget, where this machine mounts one at the usual place."""
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        mount = "/sys/fs/cgroup/memory" if "memory" in controllers.split(",") else "/sys/fs/cgroup"
        try:
            detect(KernelRoot(), mount + path)
        except InterfaceMissing:
            continue
        return mount + path
    return None


def test_real_machine_cgroup() -> None:
    path = own_memory_cgroup()
    if path is None:
        pytest.skip("no memory cgroup of our own here")
    memory = cgroup_memory(KernelRoot(), path)
    assert memory.scope is Scope.CGROUP
    assert 0 <= memory.available <= memory.total
    assert os.getpid() in members(KernelRoot(), path)
