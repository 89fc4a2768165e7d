"""The smallest cgroup that holds all VMs, and what the kernel counts there."""

from __future__ import annotations

import pytest

from memhint.kernel.errors import InterfaceMissing
from memhint.kernel.memcg import CgroupVersion
from memhint.kernel.process_cgroup import Home
from memhint.kernel.root import PAGE_SIZE
from memhint.kernel.vms_cgroup import common_cgroup, read_vms_cgroup
from memhint.objects.host import VmsCgroup

from . import recorded
from .fake_root import FakeRoot

MOUNT = "/sys/fs/cgroup"
SLICE = f"{MOUNT}/machine.slice"


def home_of(path: str, version: CgroupVersion = CgroupVersion.V2) -> Home:
    return Home(version, path, MOUNT)


@pytest.mark.parametrize(
    ("paths", "common"),
    [
        ([f"{SLICE}/a.scope/libvirt", f"{SLICE}/b.scope/libvirt"], SLICE),
        ([f"{SLICE}/a.scope/libvirt"], f"{SLICE}/a.scope/libvirt"),
        ([f"{SLICE}/a.scope", f"{MOUNT}/machine.slices/b.scope"], None),
        ([f"{SLICE}/a.scope", f"{MOUNT}/user.slice/b.scope"], None),
        ([], None),
    ],
)
def test_the_smallest_that_holds_all_and_not_everything(paths: list[str], common: str | None) -> None:
    assert common_cgroup({home_of(path) for path in paths}) == common


def test_two_hierarchies_have_nothing_in_common() -> None:
    assert common_cgroup({home_of(SLICE), home_of(SLICE, CgroupVersion.V1)}) is None


def test_what_the_kernel_counts_there(fake: FakeRoot) -> None:
    fake.write_all(
        SLICE,
        {
            "memory.current": "4096\n",
            "memory.swap.current": "8192\n",
            "memory.pressure": recorded.PRESSURE,
            "memory.stat": "anon 1\nworkingset_refault_anon 2\nworkingset_refault_file 3\npswpin 7\n",
        },
    )
    found = read_vms_cgroup(fake.kernel, SLICE)
    assert (found.swap, found.swapped_in, found.refaulted) == (8192, 7 * PAGE_SIZE, 5 * PAGE_SIZE)
    assert found.pressure is not None


def swap_of(current: int, most: str) -> dict[str, str]:
    stat = {"memory.current": "4096\n", "memory.stat": "anon 1\n"}
    return {**stat, "memory.swap.current": f"{current}\n", "memory.swap.max": f"{most}\n"}


@pytest.mark.parametrize(
    ("own", "parent", "most"),
    [
        ("max", "max", None),
        ("0", "max", 0),
        ("8192", "max", 8192),
        ("max", "20480", 20480 - 12288),  # others have so much of it
        ("max", "4096", 0),
        ("4096", "20480", 4096),
        (str(1 << 50), "max", None),  # more than any host has, and than a record takes
    ],
)
def test_the_swap_that_it_may_have_is_by_its_limit_and_its_parents(
    fake: FakeRoot, own: str, parent: str, most: int | None
) -> None:
    fake.write_all(SLICE, swap_of(16384, parent))
    fake.write_all(f"{SLICE}/vms", swap_of(4096, own))
    assert read_vms_cgroup(fake.kernel, f"{SLICE}/vms").swap_most == most


def test_what_it_does_not_count_there_is_unknown(fake: FakeRoot) -> None:
    fake.write_all(SLICE, {"memory.current": "4096\n", "memory.stat": "anon 1\n"})
    assert read_vms_cgroup(fake.kernel, SLICE) == VmsCgroup(SLICE)


def test_a_cgroup_that_is_gone_is_told(fake: FakeRoot) -> None:
    with pytest.raises(InterfaceMissing):
        read_vms_cgroup(fake.kernel, SLICE)
