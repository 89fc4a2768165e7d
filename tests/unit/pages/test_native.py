"""The compiled loops do what Python's do, and bear any size."""

from __future__ import annotations

import ctypes
import os
import random
from array import array
from collections.abc import Iterable
from pathlib import Path

import pytest

from memhint.kernel.errors import ProcessGone
from memhint.kernel.guest_pages import CHUNK, PART, GuestPages
from memhint.kernel.page_index import ABSENT, ZEROS, PageIndex, held, prints_of
from memhint.kernel.root import PAGE_SIZE, KernelRoot
from tests.unit.kernel.test_guest_pages import Memory, present

from .native import compiled

START = 1 << 40
PRESENT, EXCLUSIVE = 1 << 63, 1 << 56


def test_both_see_the_same_pages() -> None:
    memory = Memory(CHUNK)
    chance = random.Random(3)
    for page in range(CHUNK):
        kind = chance.choice(["absent", "content", "zeros", "zero page"])
        if kind in ("content", "zeros"):
            memory.fill(page, b"%d" % chance.randrange(40) if kind == "content" else b"")
        elif kind == "zero page":
            memory.read(page)
    looks = []
    for native in (None, compiled()):
        with GuestPages(KernelRoot(), os.getpid(), seed=(1 << 64) - 5, native=native) as pages:
            looks.append(pages.look(memory.start, CHUNK))
    assert looks[0] == looks[1]
    assert len(looks[0].hashes) > 40
    assert len(looks[0].zeros) > 40


def test_an_ended_process_is_gone_for_the_compiled_loop_as_well() -> None:
    memory = Memory()
    child = os.fork()
    if child == 0:
        os.read(os.pipe()[0], 1)  # until it is killed
    with GuestPages(KernelRoot(), child, seed=0, native=compiled()) as found:
        os.kill(child, 9)
        os.waitpid(child, 0)
        with pytest.raises(ProcessGone):
            found.look(memory.start, 1)


@pytest.mark.parametrize("native", [None, "compiled"])
def test_a_part_tells_what_differs_in_it_and_not_what_is_absent(native: str | None) -> None:
    memory = Memory(CHUNK)
    for page in range(0, 200, 2):
        memory.fill(page, b"%d" % (page % 10) * PAGE_SIZE)
    memory.read(1)  # the kernel's zero page
    memory.fill(201, b"")
    with GuestPages(KernelRoot(), os.getpid(), seed=4, native=compiled() if native else None) as pages:
        prints, _ = pages.parts(memory.start, CHUNK)
    there = [page for page in range(CHUNK) if prints[page] != ABSENT]
    assert there == [*range(0, 200, 2), 201]
    assert [page for page, one in enumerate(present(memory, CHUNK)) if one] == sorted([1, *there])
    assert len({prints[page] for page in there}) == 6
    assert prints[0] == prints[10] != prints[2]


def test_both_read_the_same_parts() -> None:
    memory = Memory(CHUNK)
    for page in range(0, CHUNK, 3):
        memory.fill(page, os.urandom(PAGE_SIZE))
    found = []
    for native in (None, compiled()):
        with GuestPages(KernelRoot(), os.getpid(), seed=99, native=native) as pages:
            found.append(pages.parts(memory.start, CHUNK)[0])
    assert found[0] == found[1]


def frames(pid: int, memory: Memory, count: int) -> list[int]:
    with open(f"/proc/{pid}/pagemap", "rb", buffering=0) as pagemap:
        entries = array("Q", os.pread(pagemap.fileno(), count * 8, memory.start // PAGE_SIZE * 8))
    return [entry & ((1 << 55) - 1) for entry in entries]


@pytest.mark.skipif(os.geteuid() != 0, reason="page frames are shown to root")
def test_pages_that_another_process_maps_too_stay_shared() -> None:
    """As merged ones do: process_vm_readv gives each a copy."""
    memory = Memory(CHUNK)
    for page in range(CHUNK):
        memory.fill(page, b"%d" % page * 1000)
    child = os.fork()
    if child == 0:
        os.read(os.pipe()[0], 1)  # until it is killed
    try:
        before = frames(child, memory, CHUNK)
        assert before == frames(os.getpid(), memory, CHUNK)
        with GuestPages(KernelRoot(), child, seed=0, native=compiled()) as pages:
            assert ABSENT not in pages.parts(memory.start, CHUNK)[0]
            assert len(pages.look(memory.start, CHUNK).hashes) == CHUNK
        assert frames(child, memory, CHUNK) == before
    finally:
        os.kill(child, 9)
        os.waitpid(child, 0)


def test_a_host_that_forbids_to_read_at_many_places_is_read_through_mem() -> None:
    memory = Memory(4)
    memory.fill(0, b"x" * PAGE_SIZE)
    native = compiled()

    def unless_forbidden(call, pagemap: int, memory: int, pid: int, *rest: object):
        if pid:
            raise PermissionError(1, "Operation not permitted")
        return call(pagemap, memory, pid, *rest)

    class Forbidding:
        def parts(self, *told):
            return unless_forbidden(native.parts, *told)

        def look(self, *told):
            return unless_forbidden(native.look, *told)

    with GuestPages(KernelRoot(), os.getpid(), seed=1, native=native) as pages:
        prints, look = pages.parts(memory.start, 4)[0], pages.look(memory.start, 4)
    for what, wanted in ((lambda found: found.parts(memory.start, 4)[0], prints),
                         (lambda found: found.look(memory.start, 4), look)):  # fmt: skip
        with GuestPages(KernelRoot(), os.getpid(), seed=1, native=Forbidding()) as pages:  # type: ignore[arg-type]
            assert what(pages) == wanted


def pagemap_of(folder: Path, memory: Memory, frames: list[int]) -> int:
    """A descriptor of a file like pagemap, where all pages are this process's alone, in these frames; 0: not shown."""
    file = os.open(folder / "pagemap", os.O_RDWR | os.O_CREAT)
    entries = array("Q", [PRESENT | EXCLUSIVE | frame for frame in frames])
    os.pwrite(file, entries.tobytes(), memory.start // PAGE_SIZE * 8)
    return file


def protect(memory: Memory, pages: Iterable[int]) -> None:
    """So that nobody can read them any more, as if they were unmapped."""
    for page in pages:
        assert ctypes.CDLL(None).mprotect(ctypes.c_void_p(memory.address(page)), PAGE_SIZE, 0) == 0


@pytest.mark.parametrize("gone", [[], [0], [255], [7, 8, 100], list(range(0, 256, 3)), list(range(256))])
@pytest.mark.parametrize("frames", ["not shown", "side by side", "apart", "in rows", "in short rows"])
def test_what_goes_while_it_is_read_is_passed_over(tmp_path: Path, frames: str, gone: list[int]) -> None:
    """However the pages lie in the machine's memory."""
    memory, native = Memory(CHUNK), compiled()
    for page in range(CHUNK):
        memory.fill(page, os.urandom(PAGE_SIZE))
    where = {
        "not shown": [0] * CHUNK,
        "side by side": list(range(1000, 1000 + CHUNK)),
        "apart": list(range(1000, 1000 + 2 * CHUNK, 2)),
        "in rows": [1000 + page + 5 * (page // 40) for page in range(CHUNK)],
        "in short rows": [1000 + page + 5 * (page // 4) for page in range(CHUNK)],
    }
    pagemap, mem = pagemap_of(tmp_path, memory, where[frames]), os.open("/proc/self/mem", os.O_RDONLY)
    try:
        with GuestPages(KernelRoot(), os.getpid(), seed=5) as pages:
            prints, _ = pages.parts(memory.start, CHUNK)
            look = pages.look(memory.start, CHUNK)
            part = pages._offset, PART
        left = [page for page in range(CHUNK) if page not in gone]
        protect(memory, gone)
        told = (memory.start, CHUNK, PAGE_SIZE, 5)
        buffer = bytearray(CHUNK * PAGE_SIZE)
        found, moved = native.parts(pagemap, mem, os.getpid(), *told, *part, buffer)
        assert list(array("I", found)) == [prints[page] if page in left else ABSENT for page in range(CHUNK)]
        if not gone:
            joined = frames in ("side by side", "in rows")
            assert (moved == CHUNK * PART) != joined
        addresses, hashes, zeros = native.look(pagemap, mem, os.getpid(), *told, 0, buffer, None)
        assert list(array("Q", addresses)) == [memory.address(page) for page in left]
        assert list(array("Q", hashes)) == [look.hashes[page] for page in left]
        assert zeros == b""
    finally:
        os.close(pagemap)
        os.close(mem)


def some_prints(chance: random.Random, contents: int, pages: int) -> array[int]:
    kinds = [chance.randrange(2, 1 << 32) for _ in range(contents)]
    return array("I", [chance.choice([ABSENT, ZEROS, *kinds]) for _ in range(pages)])


def test_both_find_the_same_candidates() -> None:
    chance = random.Random(5)
    pages = some_prints(chance, 700, 1000)
    found = []
    for native in (None, compiled()):
        index = PageIndex(500, native)
        again = index.enter(pages)
        found.append((again, index.repeated(pages)))
    assert found[0] == found[1]
    (content, again), repeated = found[0]
    assert content == sum(1 for one in pages if one not in (ABSENT, ZEROS))
    assert 200 < again < 500
    assert repeated.zeros == repeated.prints.count(ZEROS) == pages.count(ZEROS) > 0
    assert repeated.there == len(repeated.prints) - repeated.prints.count(ABSENT)


def test_both_tell_what_held() -> None:
    chance = random.Random(8)
    places = sorted(chance.sample(range(400), 250))
    addresses = array("Q", [START + place * PAGE_SIZE for place in places])
    hashes = array("Q", [chance.getrandbits(64) for _ in places])
    later = array("Q", [one if at % 7 else one ^ 1 for at, one in enumerate(hashes)])
    zeros = array("Q", [START + place * PAGE_SIZE for place in range(400) if place not in places][:20])
    found = []
    for native in (None, compiled()):
        prints = prints_of(addresses, hashes, zeros, START, PAGE_SIZE, 400, native)
        found.append((prints, held(addresses, later, START, PAGE_SIZE, prints, native)))
    assert found[0] == found[1]
    prints, (same, contents) = found[0]
    assert (prints.count(ZEROS), prints.count(ABSENT)) == (20, 130)
    assert len(same) == len(contents) == 250 - 36


@pytest.mark.parametrize("native", [None, "compiled"])
def test_no_page_with_a_partner_is_missed_and_few_without_one_pass(native: str | None) -> None:
    chance = random.Random(7)
    index = PageIndex(20_000, compiled() if native else None)
    contents = [chance.randrange(2, 1 << 32) for _ in range(15_000)]
    pages = array("I", contents + contents[:5000])
    content, again = index.enter(pages)
    assert content == 20_000
    assert again >= 5000
    passed = [one for one in index.repeated(pages).prints if one != ABSENT]
    assert set(contents[:5000]) <= set(passed)
    assert len(passed) - 10_000 < 0.05 * 10_000


@pytest.mark.parametrize("native", [None, "compiled"])
def test_a_page_outside_is_refused(native: str | None) -> None:
    pages, nothing = compiled() if native else None, array("Q")
    for address in (START - PAGE_SIZE, START + 4 * PAGE_SIZE, (1 << 64) - PAGE_SIZE):
        one = array("Q", [address])
        with pytest.raises(ValueError, match="outside"):
            prints_of(one, array("Q", [1]), nothing, START, PAGE_SIZE, 4, pages)
        with pytest.raises(ValueError, match="outside"):
            prints_of(nothing, nothing, one, START, PAGE_SIZE, 4, pages)
        with pytest.raises(ValueError, match="outside"):
            held(one, array("Q", [1]), START, PAGE_SIZE, array("I", bytes(16)), pages)


def test_sizes_that_do_not_fit_are_refused_and_nothing_is_written() -> None:
    native = compiled()
    one = array("Q", [START])
    with open("/proc/self/mem", "rb", buffering=0) as memory:
        fd = memory.fileno()
        for start, pages, size, length in (
            (0, CHUNK + 1, 4096, 1 << 21),
            (0, -1, 4096, 1 << 20),
            (0, 2, 4096, 4096),
            (1, 1, 4096, 4096),
            (0, 1, 0, 4096),
            (0, 1, 4095, 4096),
            (0, 1, 1 << 40, 4096),
            ((1 << 63) - 4096, 1, 4096, 4096),
        ):
            with pytest.raises(ValueError, match="out of bounds"):
                native.look(fd, fd, 0, start, pages, size, 0, 0, bytearray(length), None)
            with pytest.raises(ValueError, match="out of bounds"):
                native.parts(fd, fd, 0, start, pages, size, 0, 0, 128, bytearray(length))
        for offset, length in ((4096 - 127, 128), (0, 2049), (0, 0), (1 << 63, 1 << 63)):
            with pytest.raises(ValueError, match="out of bounds"):
                native.parts(fd, fd, 0, 0, 1, 4096, 0, offset, length, bytearray(1 << 20))
        with pytest.raises(ValueError, match="out of bounds"):
            native.parts(fd, fd, 0, 0, 1, 4096, 0, 0, 128, bytearray((1 << 20) - 1))
        with pytest.raises(ValueError, match="out of bounds"):
            native.look(fd, fd, 0, 0, 2, 4096, 0, 0, bytearray(8192), bytes(4))
        for call in (
            lambda: native.look(-1, -1, 0, 0, 1, 4096, 0, 0, bytearray(4096), None),
            lambda: native.parts(-1, -1, 0, 0, 1, 4096, 0, 0, 128, bytearray(1 << 20)),
        ):
            with pytest.raises(OSError, match="Bad file"):
                call()
        with pytest.raises(OverflowError):
            native.look(fd, fd, 0, 0, 1 << 80, 4096, 0, 0, bytearray(4096), None)
        with pytest.raises((BufferError, TypeError, ValueError)):
            native.look(fd, fd, 0, 0, 1, 4096, 0, 0, bytes(4096), None)
    for prints, once, more in (
        (array("I", [5]), 8, 16),
        (array("I", [5]), 0, 0),
        (array("I", [5]), 12, 12),
        (b"123", 8, 8),
        (memoryview(bytearray(9))[1:5], 8, 8),
    ):
        filters = bytearray(once), bytearray(more)
        with pytest.raises(ValueError, match=r"do not fit|one size"):
            native.enter(prints, *filters)
        assert not any(filters[0])
        assert not any(filters[1])
    for call in (
        lambda: native.repeated(b"123", bytearray(8)),
        lambda: native.repeated(array("I", [5]), bytearray(0)),
        lambda: native.prints(one, array("Q"), array("Q"), START, 4096, 1),
        lambda: native.prints(one, one, array("Q"), START, 0, 1),
        lambda: native.prints(one, one, array("Q"), START, 4096, -1),
        lambda: native.held(one, array("Q"), START, 4096, array("I", [5])),
        lambda: native.held(one, one, START, 0, array("I", [5])),
        lambda: native.held(b"1234567", b"1234567", START, 4096, array("I", [5])),
    ):
        with pytest.raises(ValueError, match=r"do not fit"):
            call()


def test_an_empty_array_may_be_anywhere() -> None:
    # that of Python's own empty array is at no boundary
    nothing, filters = memoryview(bytearray(17))[1:1], (bytearray(8), bytearray(8))
    assert compiled().enter(nothing, *filters) == (0, 0)
    assert compiled().repeated(nothing, filters[1]) == (b"", 0, 0)
    assert compiled().held(nothing, nothing, START, PAGE_SIZE, array("I")) == (b"", b"")
    assert compiled().prints(nothing, nothing, nothing, START, PAGE_SIZE, 0) == b""
