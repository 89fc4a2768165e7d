"""What may be read ahead of a VM is bounded by its own cgroup, too."""

from __future__ import annotations

from pathlib import Path

from memhint.levers.wake_room import wake_room
from memhint.objects.units import GIB, MIB
from tests.unit.kernel import recorded
from tests.unit.kernel.fake_root import FakeRoot

CGROUP = "sys/fs/cgroup/machine.slice/vm"


def host(tmp_path: Path, limit: str, used: int) -> FakeRoot:
    fake = FakeRoot(tmp_path).write("proc/meminfo", recorded.MEMINFO).write("proc/swaps", recorded.SWAPS)
    fake.write("proc/self/mounts", "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n")
    fake.write("proc/7/cgroup", "0::/machine.slice/vm\n")
    files = {
        "memory.current": f"{used}\n",
        "memory.max": f"{limit}\n",
        "memory.high": "max\n",
        "memory.stat": "inactive_file 0\nactive_file 0\nslab_reclaimable 0\n",
        "memory.swap.max": "max\n",
        "memory.swap.current": "0\n",
    }
    return fake.write_all(CGROUP, files)


def test_a_limit_of_the_vm_holds(tmp_path: Path) -> None:
    fake = host(tmp_path, str(2 * GIB), 2 * GIB - 3 * MIB)
    assert wake_room(fake.kernel, 7, lambda: GIB)() == 3 * MIB
    assert wake_room(fake.kernel, 7, lambda: MIB)() == MIB


def test_without_a_limit_it_is_what_the_host_gives(tmp_path: Path) -> None:
    fake = host(tmp_path, "max", 2 * GIB)
    assert wake_room(fake.kernel, 7, lambda: 5 * MIB)() == 5 * MIB


def test_without_a_cgroup_and_once_it_has_gone_it_is_what_the_host_gives(tmp_path: Path) -> None:
    fake = host(tmp_path, str(2 * GIB), 2 * GIB)
    room = wake_room(fake.kernel, 7, lambda: GIB)
    assert room() == 0
    fake.remove(f"{CGROUP}/memory.current")
    assert room() == GIB
    fake.write("proc/7/cgroup", "0::/\n")
    assert wake_room(fake.kernel, 7, lambda: GIB)() == GIB
