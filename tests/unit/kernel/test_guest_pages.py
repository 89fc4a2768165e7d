"""The pages of a process: which are guest memory, which may be read, and that reading them changes nothing."""

from __future__ import annotations

import ctypes
import mmap
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from memhint.kernel.errors import InterfaceMalformed, InterfaceMissing, ProcessGone
from memhint.kernel.guest_pages import CHUNK, GuestPages, Span, guest_ram
from memhint.kernel.root import PAGE_SIZE, KernelRoot

from . import recorded
from .fake_root import FakeRoot

PID = 4711
PAGES = 64


class Memory:
    """Anonymous memory of this very process, page by page."""

    def __init__(self, pages: int = PAGES) -> None:
        self._map = mmap.mmap(-1, pages * PAGE_SIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self._map.madvise(mmap.MADV_NOHUGEPAGE)
        self.start = ctypes.addressof(ctypes.c_char.from_buffer(self._map))

    def fill(self, page: int, text: bytes) -> None:
        self._map[page * PAGE_SIZE : (page + 1) * PAGE_SIZE] = text.ljust(PAGE_SIZE, b"\0")

    def read(self, page: int) -> bytes:
        return self._map[page * PAGE_SIZE : page * PAGE_SIZE + 1]

    def drop(self, page: int) -> None:
        self._map.madvise(mmap.MADV_DONTNEED, page * PAGE_SIZE, PAGE_SIZE)

    def address(self, page: int) -> int:
        return self.start + page * PAGE_SIZE


@pytest.fixture
def memory() -> Memory:
    return Memory()


@pytest.fixture
def pages() -> Iterator[GuestPages]:
    with GuestPages(KernelRoot(), os.getpid(), seed=7) as found:
        yield found


def present(memory: Memory, pages: int = PAGES) -> list[bool]:
    with open("/proc/self/pagemap", "rb", buffering=0) as pagemap:
        entries = os.pread(pagemap.fileno(), pages * 8, memory.start // PAGE_SIZE * 8)
    return [bool(entries[at * 8 + 7] & 0x80) for at in range(pages)]


def test_equal_pages_have_equal_hashes_and_others_do_not(memory: Memory, pages: GuestPages) -> None:
    for page, text in ((0, b"one"), (1, b"two"), (2, b"one"), (9, b"one")):
        memory.fill(page, text)
    look = pages.look(memory.start, PAGES)
    assert list(look.addresses) == [memory.address(page) for page in (0, 1, 2, 9)]
    assert look.hashes[0] == look.hashes[2] == look.hashes[3] != look.hashes[1]
    assert not look.zeros


def test_what_is_not_there_is_not_read_and_stays_away(memory: Memory, pages: GuestPages) -> None:
    for page in (3, 4, 20):
        memory.fill(page, b"here")
    before = present(memory)
    assert sum(before) == 3
    pages.look(memory.start, PAGES)
    pages.look_again([memory.address(page) for page in range(PAGES)])
    assert present(memory) == before


def test_zeros_are_told_apart_and_the_kernels_zero_page_is_none_of_them(memory: Memory, pages: GuestPages) -> None:
    memory.fill(5, b"")  # written: a page of its own
    assert memory.read(6) == b"\0"  # only read: the kernel's zero page
    look = pages.look(memory.start, PAGES)
    assert list(look.zeros) == [memory.address(5)]
    assert not look.hashes


def test_the_second_look_sees_what_changed_and_what_went(memory: Memory, pages: GuestPages) -> None:
    for page in range(6):
        memory.fill(page, b"%d" % page)
    first = dict(zip(*_pair(pages.look(memory.start, PAGES)), strict=True))
    memory.fill(1, b"other")
    memory.drop(4)
    again = dict(zip(*_pair(pages.look_again(sorted(first))), strict=True))
    assert {(one - memory.start) // PAGE_SIZE for one in first if again.get(one) == first[one]} == {0, 2, 3, 5}
    assert memory.address(4) not in again


def _pair(look):
    return look.addresses, look.hashes


def test_only_pages_of_another_seed_differ(memory: Memory, pages: GuestPages) -> None:
    memory.fill(0, b"same")
    with GuestPages(KernelRoot(), os.getpid(), seed=8) as other:
        assert other.look(memory.start, 1).hashes[0] != pages.look(memory.start, 1).hashes[0]


def test_more_than_a_chunk_of_neighbours_is_read_again_whole(pages: GuestPages) -> None:
    large = Memory(CHUNK + 10)
    for page in range(CHUNK + 10):
        large.fill(page, b"%d" % page)
    addresses = [large.address(page) for page in range(CHUNK + 10)]
    assert list(pages.look_again(addresses).addresses) == addresses


def test_a_process_that_ended_is_gone(memory: Memory) -> None:
    child = os.fork()
    if child == 0:
        os.read(os.pipe()[0], 1)  # until it is killed
    with GuestPages(KernelRoot(), child, seed=0) as found:
        os.kill(child, 9)
        os.waitpid(child, 0)
        with pytest.raises(ProcessGone):
            found.look(memory.start, 1)


def test_no_process_no_pages(tmp_path: Path) -> None:
    with pytest.raises(InterfaceMissing):
        GuestPages(KernelRoot(tmp_path), PID, seed=0)


# -- which mappings ----------------------------------------------------------------------------------------------------


def mapping(start: int, size: int, flags: str, mode: str = "rw-p", inode: int = 0, name: str = "") -> str:
    return f"{start:x}-{start + size:x} {mode} 00000000 00:00 {inode} {name}\nSize: {size >> 10} kB\nVmFlags: {flags}\n"


def test_guest_memory_is_what_qemu_marks_whether_it_merges_or_not(fake: FakeRoot) -> None:
    smaps = (
        mapping(0x1000, 0x1000, "rd wr mr mw me ac", name="[heap]")
        + mapping(0x10000, 0x10000, "rd wr mr mw me dc ac dd hg mg")
        + mapping(0x40000, 0x10000, "rd wr mr mw me dc ac dd hg")
        + mapping(0x60000, 0x10000, "rd wr mr mw me dc ac dd hg mg um")  # served by userfaultfd
        + mapping(0x80000, 0x10000, "rd wr sh mr mw me dc ac dd hg", mode="rw-s")
        + mapping(0xA0000, 0x10000, "rd wr mr mw me dc ac", inode=77, name="/dev/shm/ram")
    )
    spans = guest_ram(fake.process(smaps=smaps).kernel, PID)
    assert spans == (Span(0x10000, 0x20000), Span(0x40000, 0x50000))


def test_a_recorded_qemu_has_one_gib(fake: FakeRoot) -> None:
    assert sum(span.end - span.start for span in guest_ram(fake.process().kernel, PID)) == 1 << 30


@pytest.mark.parametrize(
    "smaps",
    [
        "1000-2000 rw-p 00000000 00:00 0 \n2000-3000 rw-p 00000000 00:00 0 \nVmFlags: mg\n",
        "VmFlags: mg\n",
        recorded.SMAPS + "ff000-100000 rw-p 00000000 00:00 0 \n",
        mapping(0x2000, 0x1000, "mg").replace("3000", "1000"),
    ],
)
def test_a_list_of_mappings_that_does_not_add_up_is_malformed(fake: FakeRoot, smaps: str) -> None:
    with pytest.raises(InterfaceMalformed):
        guest_ram(fake.process(smaps=smaps).kernel, PID)


def test_an_ending_process_has_no_mappings(fake: FakeRoot) -> None:
    with pytest.raises(ProcessGone):
        guest_ram(fake.process(smaps="").kernel, PID)
