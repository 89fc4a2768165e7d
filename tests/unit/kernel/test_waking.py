"""What of a guest is in swap, by a recorded pagemap, and what the host reads from there."""

from __future__ import annotations

import os
import struct
from pathlib import Path
from types import SimpleNamespace

import pytest

from memhint.kernel.errors import InterfaceMissing, KernelInterfaceError, ProcessGone
from memhint.kernel.guest_advice import GuestAdvice, Swapped
from memhint.kernel.guest_ram import read_guest_ram
from memhint.kernel.swap_reads import SwapQueue, SwapReads
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


SWAPS = """Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority
/dev/dm-0 partition 1024 512 -2
/a\\040file file 1024 512 -3
/dev/zram0 partition 1024 512 100
/gone file 1024 512 -4
"""


def test_reads_that_a_disk_has_not_answered_are_those_of_every_area(
    fake: FakeRoot, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Devices are not in /dev: a service with PrivateDevices sees none there."""
    fake.write("proc/swaps", SWAPS)
    fake.write("sys/class/block/dm-0/inflight", "       3        9\n")
    fake.write("sys/dev/block/8:1/inflight", "      20        0\n")
    about = {
        "/a file": SimpleNamespace(st_dev=os.makedev(8, 1)),
    }

    def stat(path: str) -> SimpleNamespace:
        name = path.removeprefix(str(fake.path))
        if name not in about:
            raise FileNotFoundError(path)
        return about[name]

    seen = SimpleNamespace(stat=stat, major=os.major, minor=os.minor)
    monkeypatch.setattr("memhint.kernel.swap_reads.os", seen)
    queue = SwapQueue(fake.kernel)
    assert queue.waiting() == 23
    fake.remove("sys/dev/block/8:1/inflight")
    fake.write("sys/class/block/dm-0/inflight", "")
    assert queue.waiting() == 0


@pytest.mark.parametrize("text", ["", "x", "Filename\n/dev/dm-0 partition\n"])
def test_where_it_is_not_known_no_read_waits(fake: FakeRoot, text: str) -> None:
    assert SwapQueue(fake.kernel).waiting() == 0
    fake.write("proc/swaps", text)
    assert SwapQueue(fake.kernel).waiting() == 0


def test_what_the_host_reads_and_what_a_process_has_in_swap(fake: FakeRoot) -> None:
    reads = SwapReads(fake.kernel, 4096)
    with pytest.raises(InterfaceMissing):
        reads.total()
    fake.write("proc/vmstat", "pswpin 5\npswpout 7\n")
    assert reads.total() == 5 * 4096
    fake.process(4711, status="Name:\tqemu\nVmRSS:\t  12 kB\nVmSwap:\t  300 kB\nThreads:\t1\n")
    assert reads.of(4711) == 300 * 1024
    fake.process(4712, status="Name:\tqemu\nThreads:\t1\n")  # it is ending
    with pytest.raises(ProcessGone):
        reads.of(4712)
    with pytest.raises(KernelInterfaceError):
        reads.of(4713)
