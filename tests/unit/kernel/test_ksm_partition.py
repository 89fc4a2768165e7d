"""The partition of a process, and the ways in which it cannot be read or set."""

from __future__ import annotations

import errno

import pytest

from memhint.kernel.errors import InterfaceMalformed, InterfaceMissing, ProcessGone, WriteRejected
from memhint.kernel.ksm import read_ksm
from memhint.kernel.ksm_partition import PartitionBusy, has_partitions, read_partition, set_partition
from memhint.kernel.root import KernelRoot

from .fake_root import FakeRoot

FILE = "proc/11/ksm_partition"


class Refusing(KernelRoot):
    """A kernel that takes no partition, for a reason."""

    why = errno.EBUSY

    def write_text(self, relative: str, text: str) -> None:
        cause = OSError(self.why, "no")
        raise WriteRejected(self.path(relative), f"writing {text!r}: no") from cause


class Deaf(KernelRoot):
    """One that takes every value and keeps its own."""

    def write_text(self, relative: str, text: str) -> None:
        pass


def test_a_kernel_has_partitions_or_not(fake: FakeRoot) -> None:
    assert not has_partitions(fake.kernel)
    assert not read_ksm(fake.host().kernel).partitions
    fake.write("proc/self/ksm_partition", "0\n")
    assert has_partitions(fake.kernel)
    assert read_ksm(fake.kernel).partitions


def test_it_is_set_and_read_back(fake: FakeRoot) -> None:
    fake.write(FILE, "0\n")
    set_partition(fake.kernel, 11, 4294967295)
    assert read_partition(fake.kernel, 11) == 4294967295


def test_merged_pages_stand_in_the_way(fake: FakeRoot) -> None:
    fake.write(FILE, "0\n")
    with pytest.raises(PartitionBusy):
        set_partition(Refusing(fake.path), 11, 5)


def test_any_other_refusal_is_no_matter_of_merged_pages(fake: FakeRoot) -> None:
    fake.write(FILE, "0\n")
    refusing = Refusing(fake.path)
    refusing.why = errno.EPERM
    with pytest.raises(WriteRejected) as raised:
        set_partition(refusing, 11, 5)
    assert not isinstance(raised.value, PartitionBusy)


def test_what_is_not_read_back_was_not_set(fake: FakeRoot) -> None:
    fake.write(FILE, "0\n")
    with pytest.raises(WriteRejected, match="reads 0"):
        set_partition(Deaf(fake.path), 11, 5)


def test_a_process_that_ended_and_a_kernel_without_are_told_apart(fake: FakeRoot) -> None:
    for call in (lambda: read_partition(fake.kernel, 11), lambda: set_partition(fake.kernel, 11, 5)):
        with pytest.raises(ProcessGone):
            call()
    (fake.path / "proc/11").mkdir(parents=True)
    for call in (lambda: read_partition(fake.kernel, 11), lambda: set_partition(fake.kernel, 11, 5)):
        with pytest.raises(InterfaceMissing):
            call()


def test_a_process_without_memory_is_ending(fake: FakeRoot) -> None:
    fake.write(FILE, "")
    with pytest.raises(ProcessGone):
        read_partition(fake.kernel, 11)


@pytest.mark.parametrize("text", ["-1\n", "4294967296\n", "five\n"])
def test_what_is_no_partition_is_not_taken_for_one(fake: FakeRoot, text: str) -> None:
    fake.write(FILE, text)
    with pytest.raises(InterfaceMalformed):
        read_partition(fake.kernel, 11)


@pytest.mark.parametrize("knob", ["zero_pages_only", "redhat_only_zero_pages"])
def test_a_kernel_that_merges_empty_pages_only(fake: FakeRoot, knob: str) -> None:
    assert read_ksm(fake.host().kernel).empty_only is None
    fake.write(f"sys/kernel/mm/ksm/{knob}", "0\n")
    assert read_ksm(fake.kernel).empty_only is False
    fake.write(f"sys/kernel/mm/ksm/{knob}", "1\n")
    assert read_ksm(fake.kernel).empty_only is True
