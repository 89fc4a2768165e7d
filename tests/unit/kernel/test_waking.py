"""What of a guest is in swap, by a recorded pagemap, and the trigger that says that it waits."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import pytest

from memhint.kernel.errors import InterfaceMissing, ProcessGone, WriteRejected
from memhint.kernel.guest_advice import GuestAdvice, Swapped
from memhint.kernel.guest_ram import read_guest_ram
from memhint.kernel.stall_trigger import stall_trigger
from memhint.objects.units import MIB
from tests.unit.kernel import recorded

from .fake_root import FakeRoot

PAGE, START = 4096, 4 * MIB
PRESENT, IN_SWAP = 1 << 63, 1 << 62 | 5
# guest memory of 5 MiB, and a file's mapping that is in swap, too, and is none
SMAPS = f"""{START:08x}-{START + 5 * MIB:08x} rw-p 00000000 00:00 0
Rss: 1024 kB
Referenced: 512 kB
Swap: 3072 kB
VmFlags: rd wr dc
{16 * MIB:08x}-{17 * MIB:08x} rw-s 00000000 00:01 77 /memfd:other
Swap: 1024 kB
VmFlags: rd wr sh dc
"""


@pytest.fixture
def fake(tmp_path: Path) -> FakeRoot:
    pid = os.getpid()
    before, _, after = recorded.STAT.rpartition(")")
    words = after.split()
    words[19] = "70"
    fake = FakeRoot(tmp_path)
    return fake.write_all(f"proc/{pid}", {"smaps": SMAPS, "stat": f"{before}) {' '.join(words)}\n"})


def pagemap(fake: FakeRoot, pages: dict[int, int]) -> None:
    path = fake.path / f"proc/{os.getpid()}/pagemap"
    entries = [pages.get(page, 0) for page in range(5 * MIB // PAGE)]
    path.write_bytes(bytes(START // PAGE * 8) + struct.pack(f"{len(entries)}Q", *entries))


def test_what_is_in_swap_is_found_block_by_block(fake: FakeRoot) -> None:
    last = 5 * MIB // PAGE - 1
    pagemap(fake, {0: PRESENT, 1: IN_SWAP, 511: IN_SWAP, 600: PRESENT, last: IN_SWAP})
    with GuestAdvice(fake.kernel, f"{os.getpid()}:70") as guest:
        assert list(guest.swapped()) == [
            Swapped(START, 2 * MIB, 2 * PAGE),
            Swapped(START + 4 * MIB, MIB, PAGE),
        ]


def test_what_is_in_swap_of_guest_memory_is_counted_and_nothing_else(fake: FakeRoot) -> None:
    ram = read_guest_ram(fake.kernel, os.getpid())
    assert (ram.resident, ram.referenced, ram.swapped) == (MIB, MIB // 2, 3 * MIB)


def test_a_pagemap_that_ends_early_says_nothing_of_the_rest(fake: FakeRoot) -> None:
    (fake.path / f"proc/{os.getpid()}/pagemap").write_bytes(bytes(START // PAGE * 8) + struct.pack("Q", IN_SWAP) + b"x")
    with GuestAdvice(fake.kernel, f"{os.getpid()}:70") as guest:
        assert list(guest.swapped()) == [Swapped(START, 2 * MIB, PAGE)]


def test_another_process_is_not_looked_at(fake: FakeRoot) -> None:
    with pytest.raises(ProcessGone):
        GuestAdvice(fake.kernel, f"{os.getpid()}:71")


def test_a_trigger_names_how_long_and_of_which_time(fake: FakeRoot) -> None:
    fake.write("cgroup/memory.pressure", "")
    os.close(stall_trigger(fake.kernel, "cgroup", 0.05))
    assert fake.text("cgroup/memory.pressure") == "some 50000 1000000\0"


def test_a_kernel_without_triggers_is_told_from_one_that_refuses(
    fake: FakeRoot, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InterfaceMissing):
        stall_trigger(fake.kernel, "cgroup", 0.05)
    fake.write("cgroup/memory.pressure", "")
    before = len(os.listdir("/proc/self/fd"))

    def refuse(*_: object) -> int:
        raise OSError(22, "Invalid argument")

    monkeypatch.setattr("memhint.kernel.stall_trigger.os.write", refuse)
    with pytest.raises(WriteRejected, match="no trigger"):
        stall_trigger(fake.kernel, "cgroup", 0.05)
    assert len(os.listdir("/proc/self/fd")) == before
