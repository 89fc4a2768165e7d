"""What says how well huge pages and near nodes back a VM."""

from __future__ import annotations

import pytest

from memhint.kernel.buddy import free_in_blocks
from memhint.kernel.errors import InterfaceMalformed, InterfaceMissing
from memhint.kernel.kvm_pages import guest_mappings
from memhint.kernel.numa import cpus_by_node
from memhint.kernel.smaps import deep_memory
from memhint.kernel.thp import compaction_waits
from memhint.objects.domain import DeepMemory, GuestMappings
from memhint.objects.units import GIB, KIB, MIB

from . import recorded
from .fake_root import FakeRoot

PID = 4711


def thread(fake: FakeRoot, tid: int, name: str, cpu: int) -> None:
    fields = ["S"] + ["0"] * 35 + [str(cpu)] + ["0"] * 13
    fake.write(f"proc/{PID}/task/{tid}/stat", f"{tid} ({name}) {' '.join(fields)}\n")


def two_nodes(fake: FakeRoot) -> FakeRoot:
    fake.process().write("sys/devices/system/node/node0/cpulist", "0-1,4\n")
    fake.write("sys/devices/system/node/node1/cpulist", "2-3\n")
    fake.write("sys/devices/system/node/node2/cpulist", "\n")
    for tid, name, cpu in ((4711, "qemu-system-x86", 3), (4712, "CPU 0/KVM", 4), (4713, "CPU 1/TCG", 2)):
        thread(fake, tid, name, cpu)
    return fake


def test_virtual_cpus_are_counted_where_they_ran_last(fake: FakeRoot) -> None:
    assert cpus_by_node(two_nodes(fake).kernel, PID) == {0: 1, 1: 1}
    assert deep_memory(fake.kernel, PID, 0.0).cpus_by_node == {0: 1, 1: 1}


def test_a_thread_without_its_fields_is_malformed(fake: FakeRoot) -> None:
    two_nodes(fake).write(f"proc/{PID}/task/4712/stat", "4712 (CPU 0/KVM) S 1\n")
    with pytest.raises(InterfaceMalformed):
        cpus_by_node(fake.kernel, PID)


@pytest.mark.parametrize("text", ["0-99999999\n", "a\n", "0,,1\n", "-1\n"])
def test_a_list_of_no_processors_is_malformed(fake: FakeRoot, text: str) -> None:
    two_nodes(fake).write("sys/devices/system/node/node0/cpulist", text)
    with pytest.raises(InterfaceMalformed):
        cpus_by_node(fake.kernel, PID)


def test_what_is_remote_is_weighed_by_the_cpus() -> None:
    def remote(memory: dict[int, int], cpus: dict[int, int]) -> float | None:
        return DeepMemory(0.0, 0, 0, 0, memory, cpus).remote

    assert remote({0: 3 * GIB, 1: GIB}, {0: 2}) == pytest.approx(0.25)
    assert remote({0: 3 * GIB, 1: GIB}, {0: 1, 1: 1}) == pytest.approx(0.5)
    assert remote({2: GIB}, {0: 1}) == 1.0
    assert remote({0: GIB}, {0: 4}) == 0.0
    assert (remote({}, {0: 1}), remote({0: GIB}, {})) == (None, None)


def test_kvm_s_own_mappings_are_bytes(fake: FakeRoot) -> None:
    assert deep_memory(fake.process().kernel, PID, 0.0).mappings is None
    fake.write_all(f"sys/kernel/debug/kvm/{PID}-13", {"pages_4k": "512\n", "pages_2m": "3\n", "pages_1g": "0\n"})
    fake.write_all("sys/kernel/debug/kvm/471-13", {"pages_4k": "1\n", "pages_2m": "1\n", "pages_1g": "1\n"})
    found = guest_mappings(fake.kernel, PID, 4096)
    assert found == GuestMappings(small=2 * MIB, huge=6 * MIB, giant=0)
    assert found.huge_coverage == 0.75
    assert deep_memory(fake.kernel, PID, 0.0, 4096).mappings == found
    assert GuestMappings(0, 0, 0).huge_coverage is None


def test_a_qemu_without_kvm_is_missing_there(fake: FakeRoot) -> None:
    fake.write("sys/kernel/debug/kvm/pages_4k", "1\n")
    with pytest.raises(InterfaceMissing):
        guest_mappings(fake.kernel, PID)


@pytest.mark.parametrize(
    "text", ["Node 0, zone Normal\n", "Node x, zone Normal 1 2\n", f"Node 0, zone A {'1 ' * 33}\n"]
)
def test_a_broken_buddyinfo_is_malformed(fake: FakeRoot, text: str) -> None:
    with pytest.raises(InterfaceMalformed):
        free_in_blocks(fake.write("proc/buddyinfo", text).kernel, 4 * KIB)


def test_free_blocks_are_counted_from_the_size_on_that_is_asked_for(fake: FakeRoot) -> None:
    fake.write("proc/buddyinfo", recorded.BUDDYINFO)
    assert free_in_blocks(fake.kernel, MIB, 4096)[1] == 7 * MIB
    assert free_in_blocks(fake.kernel, 2 * MIB, 4096)[1] == 0


def test_who_waits_for_huge_pages_is_read_alone(fake: FakeRoot) -> None:
    assert compaction_waits(fake.write("proc/vmstat", recorded.VMSTAT).kernel) == (40, 9, 4)
    assert compaction_waits(fake.write("proc/vmstat", "pswpin 1\ncompact_stall 40\nkcompact_fail 9\n").kernel) is None
    with pytest.raises(InterfaceMissing):
        compaction_waits(fake.remove("proc/vmstat").kernel)
