from __future__ import annotations

import os
from pathlib import Path

import pytest

from memhint.kernel.errors import InterfaceMalformed, InterfaceMissing, ProcessGone
from memhint.kernel.numa import pages_by_node
from memhint.kernel.root import KernelRoot
from memhint.kernel.smaps import deep_memory, mergeable_bytes
from memhint.objects.domain import DeepMemory
from memhint.objects.units import GIB, KIB

from . import recorded
from .fake_root import FakeRoot

PID = 4711
BY_NODE = {0: 2 * 4096 + 4096 + 3 * 2048 * KIB, 1: 3 * 4096 + 100 * 4096}


def test_deep_memory_is_bytes(fake: FakeRoot) -> None:
    assert deep_memory(fake.process().kernel, PID, 12.5, 4096) == DeepMemory(
        at=12.5, pss=1200000 * KIB, rss=1300004 * KIB, anon_huge=614400 * KIB, by_node=BY_NODE
    )


def test_a_kernel_without_numa_maps_has_no_nodes(fake: FakeRoot) -> None:
    assert deep_memory(fake.process().remove(f"proc/{PID}/numa_maps").kernel, PID, 0.0).by_node == {}


def test_a_kernel_without_the_rollup_is_missing(fake: FakeRoot) -> None:
    with pytest.raises(InterfaceMissing):
        deep_memory(fake.process().remove(f"proc/{PID}/smaps_rollup").kernel, PID, 0.0)


@pytest.mark.parametrize("field", ["Pss", "Rss", "AnonHugePages"])
def test_a_rollup_without_a_field_is_missing_not_zero(fake: FakeRoot, field: str) -> None:
    fake.process(smaps_rollup=recorded.SMAPS_ROLLUP.replace(f"{field}:", "Other:"))
    with pytest.raises(InterfaceMissing, match=field):
        deep_memory(fake.kernel, PID, 0.0)


def test_deep_memory_of_a_process_that_ended_is_gone(fake: FakeRoot) -> None:
    with pytest.raises(ProcessGone):
        deep_memory(fake.process().kernel, 4712, 0.0)


def test_only_mappings_marked_mergeable_count(fake: FakeRoot) -> None:
    assert mergeable_bytes(fake.process().kernel, PID) == GIB


def test_nothing_marked_mergeable_is_zero(fake: FakeRoot) -> None:
    assert mergeable_bytes(fake.process(smaps=recorded.SMAPS.replace(" mg", "")).kernel, PID) == 0


def test_a_file_named_like_the_flag_does_not_count(fake: FakeRoot) -> None:
    smaps = recorded.SMAPS.replace(" mg", "").replace("qemu-system-x86_64", "VmFlags: mg")
    assert mergeable_bytes(fake.process(smaps=smaps).kernel, PID) == 0


def test_smaps_without_flags_are_no_proof(fake: FakeRoot) -> None:
    smaps = "".join(line for line in recorded.SMAPS.splitlines(True) if not line.startswith("VmFlags"))
    with pytest.raises(InterfaceMalformed, match="without VmFlags"):
        mergeable_bytes(fake.process(smaps=smaps).kernel, PID)


def test_smaps_cut_before_the_last_flags_are_no_proof(fake: FakeRoot) -> None:
    smaps = recorded.SMAPS[: recorded.SMAPS.rindex("VmFlags")]
    with pytest.raises(InterfaceMalformed, match="without VmFlags"):
        mergeable_bytes(fake.process(smaps=smaps).kernel, PID)


def test_flags_without_a_size_are_malformed(fake: FakeRoot) -> None:
    with pytest.raises(InterfaceMalformed, match="without a mapping"):
        mergeable_bytes(fake.process(smaps="VmFlags: mg\n").kernel, PID)


def test_the_empty_smaps_of_an_ending_process_are_no_proof(fake: FakeRoot) -> None:
    with pytest.raises(ProcessGone):
        mergeable_bytes(fake.process(smaps="").kernel, PID)


def test_mergeable_bytes_of_a_process_that_ended_is_gone(fake: FakeRoot) -> None:
    with pytest.raises(ProcessGone):
        mergeable_bytes(fake.process().kernel, 4712)


def test_numa_maps_honours_the_page_size_of_each_line() -> None:
    assert pages_by_node(recorded.NUMA_MAPS, 4096) == BY_NODE


def test_a_line_without_page_size_takes_the_default() -> None:
    assert pages_by_node("7f00 default anon=2 N3=2\n", 65536) == {3: 2 * 65536}


def test_a_policy_is_not_taken_for_a_count() -> None:
    assert pages_by_node("7f00 N0=5 anon=1 N1=1 kernelpagesize_kB=4\n") == {1: 4096}


def test_empty_numa_maps_have_no_nodes() -> None:
    assert pages_by_node("") == {}


@pytest.mark.parametrize("text", ["xyz default N0=1", "7f00", "7f00 default N0=1 kernelpagesize_kB=x"])
def test_broken_numa_maps_are_malformed(text: str) -> None:
    with pytest.raises(InterfaceMalformed):
        pages_by_node(text)


def test_real_machine_deep_memory() -> None:
    deep = deep_memory(KernelRoot(), os.getpid(), 0.0)
    assert 0 < deep.pss <= deep.rss
    if Path("/proc/self/numa_maps").exists():
        assert sum(deep.by_node.values()) > 0


def test_real_machine_mergeable_bytes() -> None:
    assert mergeable_bytes(KernelRoot(), os.getpid()) >= 0
