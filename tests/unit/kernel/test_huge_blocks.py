"""Which blocks lack a huge page, and one made of them on the kernel at hand."""

from __future__ import annotations

import errno
import os
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memhint.kernel import huge_blocks
from memhint.kernel.errors import InterfaceMissing, InterfaceUnreadable, KernelInterfaceError, ProcessGone
from memhint.kernel.huge_blocks import Block, Collapsed, GuestBlocks, small_blocks
from memhint.kernel.process import process_memory
from memhint.kernel.process_madvise import Advice
from memhint.kernel.root import KernelRoot
from memhint.kernel.smaps import deep_memory
from memhint.objects.units import MIB
from tests.unit.guest_memory import guest_memory

from .fake_root import FakeRoot

_DROPPED = """
import mmap, sys
memory = mmap.mmap(-1, 16 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
memory.madvise(mmap.MADV_DONTFORK)
memory.madvise(mmap.MADV_HUGEPAGE)
memory.write(bytes(range(256)) * (len(memory) // 256))
for page in range(0, len(memory) // 4096, 64):
    memory.madvise(mmap.MADV_DONTNEED, (page + 16) * 4096, 48 * 4096)
print("ready", flush=True)
sys.stdin.readline()
kept = bytes(range(256)) * 256
print(all(memory[page * 4096:][:65536] == kept for page in range(0, len(memory) // 4096, 64)), flush=True)
sys.stdin.read()
"""
"""A process that holds 16 pages of each 64, in huge pages that it once held as a whole."""
PAGE, HUGE = 4096, 2 * MIB
PRESENT, ZERO, HUGE_KIND = 1 << 3, 1 << 3 | 1 << 5, 1 << 3 | 1 << 6


@pytest.fixture
def guest() -> Iterator[int]:
    # one block of four has a hole of 16 pages
    with guest_memory(32 * MIB, "page // 512 % 4 != 3 or page % 512 >= 16") as pid:
        yield pid


def test_runs_of_pages_become_blocks() -> None:
    regions = [
        (HUGE, HUGE + PAGE, PRESENT),
        (HUGE + PAGE, HUGE + 3 * PAGE, ZERO),
        (2 * HUGE, 3 * HUGE, HUGE_KIND),
        (4 * HUGE - PAGE, 5 * HUGE + PAGE, PRESENT),
        (9 * HUGE, 9 * HUGE + PAGE, ZERO),
    ]
    assert list(small_blocks(regions)) == [
        Block(HUGE, HUGE - PAGE),
        Block(3 * HUGE, HUGE - PAGE),
        Block(4 * HUGE, 0),
        Block(5 * HUGE, HUGE - PAGE),
    ]


@given(st.sets(st.integers(0, 3000), max_size=300))
def test_no_present_page_is_lost_however_they_lie(pages: set[int]) -> None:
    regions = [(page * PAGE, (page + 1) * PAGE, PRESENT) for page in sorted(pages)]
    found = list(small_blocks(regions))
    assert sum(HUGE - block.absent for block in found) == len(pages) * PAGE
    assert [block.start for block in found] == sorted({page * PAGE // HUGE * HUGE for page in pages})


def test_small_pages_of_another_process_become_huge_ones(guest: int) -> None:
    root = KernelRoot()
    try:
        blocks = GuestBlocks(root, process_memory(root, guest).instance)
    except (InterfaceMissing, KernelInterfaceError) as error:
        pytest.skip(f"this kernel lets nobody collapse another process's memory here: {error}")
    with blocks:
        huge, rss, found = _between_two_scans_of_khugepaged(root, guest, blocks)
        # an address that is no multiple of a huge page's costs one block at each end
        assert 14 <= len(found) + huge // HUGE <= 16
        assert {block.absent for block in found} <= {0, 16 * PAGE}
        done = [block for block in found if blocks.collapse(block) is Collapsed.DONE]
        if not done:
            pytest.skip("this machine has no huge page left to give")
        huge, grown, small = _between_two_scans_of_khugepaged(root, guest, blocks)
        assert huge >= len(done) * HUGE
        left = {block.start for block in small}
        assert not {block.start for block in done} & left
    assert abs(grown - rss - sum(block.absent for block in found if block.start not in left)) < MIB


def _between_two_scans_of_khugepaged(root: KernelRoot, pid: int, blocks: GuestBlocks) -> tuple[int, int, list[Block]]:
    """What is in huge pages, what is resident, and the small blocks, all of one moment.

    khugepaged works on the same memory: it takes up to eight blocks each time it wakes.
    """
    while True:
        huge, rss, found = deep_memory(root, pid, 0.0).anon_huge, process_memory(root, pid).rss, list(blocks.small())
        if deep_memory(root, pid, 0.0).anon_huge == huge:
            return huge, rss, found


def test_a_process_that_ended_or_whose_pid_is_another_s_now_is_gone(guest: int) -> None:
    with pytest.raises(ProcessGone):
        GuestBlocks(KernelRoot(), f"{guest}:1")
    with pytest.raises(ProcessGone):
        GuestBlocks(KernelRoot(), "4194304:1")


def test_a_kernel_that_cannot_scan_is_missing(guest: int, fake: FakeRoot) -> None:
    with GuestBlocks(KernelRoot(), process_memory(KernelRoot(), guest).instance) as blocks:
        blocks._path = "pagemap"
        closed = blocks._pagemap
        fake.write("file", "")
        blocks._pagemap = fake.kernel.open("file")  # a file that knows no such request
        try:
            with pytest.raises(InterfaceMissing):
                list(blocks.small())
        finally:
            os.close(closed)


@pytest.mark.parametrize(
    ("number", "error", "says"),
    [
        (errno.EINVAL, InterfaceMissing, "no MADV_COLLAPSE"),
        (errno.ENOSYS, InterfaceMissing, "does not have it"),
        (errno.EPERM, InterfaceUnreadable, "not permitted"),
        (errno.ESRCH, ProcessGone, "ended"),
    ],
)
def test_a_kernel_that_cannot_collapse_is_told_by_why_and_nothing_is_held(
    guest: int, monkeypatch: pytest.MonkeyPatch, number: int, error: type[KernelInterfaceError], says: str
) -> None:
    def refuses(pidfd: int, start: int, length: int, advice: Advice) -> int:
        raise OSError(number, "no")

    root = KernelRoot()
    instance = process_memory(root, guest).instance
    monkeypatch.setattr(huge_blocks, "process_madvise", refuses)
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(error, match=says):
        GuestBlocks(root, instance)
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize(
    ("number", "became"),
    [
        (errno.ENOMEM, Collapsed.NO_BLOCK),
        (errno.EAGAIN, Collapsed.BUSY),
        (errno.EBUSY, Collapsed.BUSY),
        (errno.EINVAL, Collapsed.UNFIT),
        (errno.EFAULT, Collapsed.UNFIT),
    ],
)
def test_what_became_of_a_block_is_told_by_the_kernel_s_number(
    guest: int, monkeypatch: pytest.MonkeyPatch, number: int, became: Collapsed
) -> None:
    def answers(pidfd: int, start: int, length: int, advice: Advice) -> int:
        if length:
            raise OSError(number, "no")
        return 0

    monkeypatch.setattr(huge_blocks, "process_madvise", answers)
    root = KernelRoot()
    with GuestBlocks(root, process_memory(root, guest).instance) as blocks:
        assert blocks.collapse(Block(0, 0)) is became


def _of_huge_pages(pid: int, blocks: list[Block]) -> int:
    """Pages of these blocks that are part of a huge page, mapped as one or not."""
    found = 0
    with Path(f"/proc/{pid}/pagemap").open("rb") as pages, Path("/proc/kpageflags").open("rb", 0) as flags:
        for block in blocks:
            pages.seek(block.start // PAGE * 8)
            for (row,) in struct.iter_unpack("=Q", pages.read(HUGE // PAGE * 8)):
                if row >> 63:
                    flags.seek((row & ((1 << 55) - 1)) * 8)
                    found += bool(int.from_bytes(flags.read(8), sys.byteorder) >> 15 & 3)  # head or tail of one
    return found


@pytest.mark.skipif(os.geteuid() != 0, reason="only root sees which pages of the host back a process")
def test_what_a_process_dropped_of_huge_pages_is_freed_when_they_are_split_and_the_rest_stays() -> None:
    root = KernelRoot()
    with subprocess.Popen(
        [sys.executable, "-c", _DROPPED], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        try:
            assert child.stdin is not None
            assert child.stdout is not None
            assert child.stdout.readline() == "ready\n"
            try:
                blocks = GuestBlocks(root, process_memory(root, child.pid).instance)
            except (InterfaceMissing, KernelInterfaceError) as error:
                pytest.skip(f"this kernel lets nobody advise on another process's memory here: {error}")
            with blocks:
                found = [block for block in blocks.small() if block.absent == HUGE * 3 // 4]
                before = _of_huge_pages(child.pid, found)
                if before < 128:
                    pytest.skip("this machine has no huge page to give")
                held = process_memory(root, child.pid).rss
                for block in found:
                    blocks.split(block)
                assert _of_huge_pages(child.pid, found) == 0
                assert abs(process_memory(root, child.pid).rss - held) < MIB
            child.stdin.write("\n")
            child.stdin.flush()
            assert child.stdout.readline() == "True\n"
        finally:
            child.kill()
