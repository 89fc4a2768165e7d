"""memhint's words to a real QEMU that marks ranges: what the host's kernel says of its mappings after each."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.paused_vms import BACKEND, PausedVm, paused_vms
from lab.patched import emulator_program
from memhint.kernel.root import KernelRoot
from memhint.kernel.smaps import mergeable_bytes
from memhint.objects.units import MIB
from memhint.virt.errors import LibvirtCallFailed

SIZE = 64 * MIB


@pytest.fixture
def vm(tmp_path: Path):
    with paused_vms(emulator_program(), tmp_path, 1, SIZE) as vms:
        yield vms[0]


def mergeable(vm: PausedVm) -> int:
    return mergeable_bytes(KernelRoot(), vm.pid)


def test_ranges_are_marked_where_they_are_meant_and_one_word_takes_them_all_back(vm: PausedVm) -> None:
    before, monitor = mergeable(vm), vm.monitor
    assert monitor.marks_ranges()
    assert monitor.memory_blocks()[BACKEND].size == SIZE
    monitor.merge_ranges(BACKEND, True, ((0, 4 * MIB), (8 * MIB, 9 * MIB)))
    assert mergeable(vm) == before + 5 * MIB
    assert monitor.get(BACKEND, "merge") is False
    monitor.merge_ranges(BACKEND, False, ((MIB, 2 * MIB),))
    assert mergeable(vm) == before + 4 * MIB
    monitor.set(BACKEND, "merge", False)
    assert mergeable(vm) == before


def test_more_ranges_than_one_call_takes_are_given_in_several(vm: PausedVm) -> None:
    before = mergeable(vm)
    vm.monitor.merge_ranges(BACKEND, True, [(at * 8192, at * 8192 + 4096) for at in range(1500)])
    assert mergeable(vm) == before + 1500 * 4096


def test_what_qemu_refuses_changes_nothing(vm: PausedVm) -> None:
    before = mergeable(vm)
    with pytest.raises(LibvirtCallFailed, match="beyond the end"):
        vm.monitor.merge_ranges(BACKEND, True, ((0, MIB), (2 * MIB, SIZE + MIB)))
    assert mergeable(vm) == before


def test_pages_written_from_the_host_are_where_qemu_says(vm: PausedVm) -> None:
    vm.fill([b"%4096d" % at for at in range(600)])
    address = vm.monitor.memory_blocks()[BACKEND].address
    with Path(f"/proc/{vm.pid}/mem").open("rb") as memory:
        memory.seek(address + 599 * 4096)
        assert int(memory.read(4096)) == 599


def test_a_stock_qemu_says_that_it_cannot(tmp_path: Path) -> None:
    with paused_vms(Path("/usr/bin/qemu-system-x86_64"), tmp_path, 1, SIZE) as vms:
        assert not vms[0].monitor.marks_ranges()
