"""meminfo, swaps, vmstat and pressure of the whole machine."""

from __future__ import annotations

import errno
import os

import pytest

from memhint.kernel.errors import InterfaceMalformed, InterfaceMissing
from memhint.kernel.meminfo import machine_memory, read_meminfo
from memhint.kernel.psi import read_pressure
from memhint.kernel.swap import DiskSwap, disk_swap, swap_activity
from memhint.kernel.vmstat import oom_kills, read_vmstat
from memhint.objects.host import HostMemory, Pressure, Scope, SwapActivity
from memhint.objects.units import KIB

from . import recorded
from .fake_root import FakeRoot


def test_machine_memory_is_bytes_with_the_swap_on_disk_only(fake: FakeRoot) -> None:
    assert machine_memory(fake.host().kernel) == HostMemory(
        scope=Scope.MACHINE,
        total=24684092 * KIB,
        available=24390940 * KIB,
        swap_total=(4194300 + 2097148) * KIB,
        swap_used=(1024 + 512) * KIB,
        swap_free=(4194300 + 2097148 - 1024 - 512) * KIB,
        swap_in_memory=524288 * KIB,
    )


def test_meminfo_knows_names_with_parentheses_and_plain_counts(fake: FakeRoot) -> None:
    fields = read_meminfo(fake.host().kernel)
    assert fields.kib("Active(file)") > 0
    assert fields.number("HugePages_Total") == 0


def test_a_count_without_a_unit_is_not_taken_for_kib(fake: FakeRoot) -> None:
    with pytest.raises(InterfaceMalformed):
        read_meminfo(fake.host().kernel).kib("HugePages_Total")


def test_missing_memavailable_is_missing_not_zero(fake: FakeRoot) -> None:
    fake.host().write("proc/meminfo", recorded.MEMINFO.replace("MemAvailable", "MemSomething"))
    with pytest.raises(InterfaceMissing, match="MemAvailable"):
        machine_memory(fake.kernel)


@pytest.mark.parametrize(
    "text", ["", "\n", "MemTotal: x kB\nMemAvailable: 1 kB\n", "MemTotal: -4 kB\nMemAvailable: 1 kB"]
)
def test_meminfo_without_sense_is_malformed(fake: FakeRoot, text: str) -> None:
    with pytest.raises(InterfaceMalformed):
        machine_memory(fake.host().write("proc/meminfo", text).kernel)


def test_an_odd_line_of_a_newer_kernel_breaks_nothing(fake: FakeRoot) -> None:
    fake.host().write("proc/meminfo", recorded.MEMINFO + "Future: yes/no [x]\nwithout colon\n")
    assert machine_memory(fake.kernel).total == 24684092 * KIB


def test_available_never_exceeds_the_total(fake: FakeRoot) -> None:
    fake.host().write("proc/meminfo", "MemTotal: 10 kB\nMemAvailable: 11 kB\n")
    assert machine_memory(fake.kernel).available == 10 * KIB


def test_a_kernel_without_swap_has_none(fake: FakeRoot) -> None:
    memory = machine_memory(fake.host().remove("proc/swaps").kernel)
    assert (memory.swap_total, memory.swap_used) == (0, 0)


def test_unreadable_swaps_are_not_taken_for_none(fake: FakeRoot) -> None:
    with pytest.raises(InterfaceMalformed):
        machine_memory(fake.host().write("proc/swaps", "").kernel)


def test_no_swap_in_use_is_zero(fake: FakeRoot) -> None:
    assert disk_swap(fake.write("proc/swaps", recorded.SWAPS_NONE).kernel) == DiskSwap(0, 0)


@pytest.mark.parametrize("device", ["/dev/zram0", "/dev/zram12", "/dev/block/zram0", "/dev/ram1"])
def test_swap_that_lives_in_memory_counts_zero(fake: FakeRoot, device: str) -> None:
    text = recorded.SWAPS_NONE + f"{device} partition 1000 10 100\n"
    assert disk_swap(fake.write("proc/swaps", text).kernel) == DiskSwap(0, 0, in_memory=10 * KIB)


@pytest.mark.parametrize("name", ["/dev/mapper/zram0-cow", "/var/zram0", "/swapfile\\040(deleted)", "/dev/dm-0"])
def test_swap_on_a_disk_counts_whatever_its_name(fake: FakeRoot, name: str) -> None:
    text = recorded.SWAPS_NONE + f"{name} file 1000 10 -2\n"
    assert disk_swap(fake.write("proc/swaps", text).kernel) == DiskSwap(1000 * KIB, 10 * KIB)


@pytest.mark.parametrize(
    "line", ["/dev/sda2 partition 1000", "/dev/sda2 partition x 10 -2", "/dev/sda2 partition 10 11 -2", "/dev/zram0 a"]
)
def test_a_broken_line_of_swaps_is_malformed(fake: FakeRoot, line: str) -> None:
    with pytest.raises(InterfaceMalformed):
        disk_swap(fake.write("proc/swaps", recorded.SWAPS_NONE + line + "\n").kernel)


def test_swap_activity_is_bytes_of_the_page_size_given(fake: FakeRoot) -> None:
    assert swap_activity(fake.host().kernel, 65536) == SwapActivity(17 * 65536, 4099 * 65536)


def test_oom_kills_are_counted(fake: FakeRoot) -> None:
    assert oom_kills(fake.host().kernel) == 2


def test_a_counter_that_vmstat_lacks_is_missing(fake: FakeRoot) -> None:
    fake.write("proc/vmstat", "pswpin 1\n")
    with pytest.raises(InterfaceMissing, match="oom_kill"):
        oom_kills(fake.kernel)
    with pytest.raises(InterfaceMissing, match="pswpout"):
        swap_activity(fake.kernel)


def test_vmstat_gives_any_counter_by_name(fake: FakeRoot) -> None:
    assert read_vmstat(fake.host().kernel).number("nr_free_pages") > 0


def test_pressure_of_the_machine(fake: FakeRoot) -> None:
    assert read_pressure(fake.host().kernel) == Pressure(Scope.MACHINE, 1.25, 0.5, 0.75, 123456)


def test_pressure_of_a_cgroup_says_so(fake: FakeRoot) -> None:
    fake.write("sys/fs/cgroup/vms/memory.pressure", recorded.PRESSURE)
    assert read_pressure(fake.kernel, "/sys/fs/cgroup/vms").scope is Scope.CGROUP


def test_psi_disabled_at_boot_is_missing_not_zero(fake: FakeRoot, monkeypatch: pytest.MonkeyPatch) -> None:
    def read(fd: int, size: int) -> bytes:
        raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))

    fake.host()
    monkeypatch.setattr(os, "read", read)
    with pytest.raises(InterfaceMissing):
        read_pressure(fake.kernel)


def test_a_kernel_without_psi_is_missing_not_zero(fake: FakeRoot) -> None:
    with pytest.raises(InterfaceMissing):
        read_pressure(fake.kernel)


@pytest.mark.parametrize(
    "text",
    [
        "",
        recorded.PRESSURE.splitlines()[0],
        recorded.PRESSURE.replace("1.25", "nan"),
        recorded.PRESSURE.replace("1.25", "-1.25"),
        recorded.PRESSURE.replace("total=123456", "total="),
        recorded.PRESSURE.replace("total=123456", "total=" + "9" * 21),
    ],
)
def test_pressure_without_sense_is_malformed(fake: FakeRoot, text: str) -> None:
    with pytest.raises(InterfaceMalformed):
        read_pressure(fake.write("proc/pressure/memory", text).kernel)
