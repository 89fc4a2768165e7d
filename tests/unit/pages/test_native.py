"""The compiled loops do what Python's do, and bear any size."""

from __future__ import annotations

import os
import random
from array import array

import pytest

from memhint.kernel.errors import ProcessGone
from memhint.kernel.guest_pages import CHUNK, GuestPages
from memhint.kernel.page_index import PageIndex
from memhint.kernel.root import PAGE_SIZE, KernelRoot
from tests.unit.kernel.test_guest_pages import Memory

from .native import compiled

START = 1 << 40


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


def test_both_find_the_same_candidates() -> None:
    chance = random.Random(5)
    contents = [chance.getrandbits(64) for _ in range(700)]
    pages = [chance.choice(contents) for _ in range(1000)]
    addresses = array("Q", range(START, START + 1000 * PAGE_SIZE, PAGE_SIZE))
    found = []
    for native in (None, compiled()):
        index, tags = PageIndex(500, native), bytearray(1100)
        index.first(addresses, array("Q", pages), START, PAGE_SIZE, tags)
        later = [one if at % 7 else chance.getrandbits(64) for at, one in enumerate(pages)]
        chance.seed(9)
        later = [one if at % 7 else chance.getrandbits(64) for at, one in enumerate(pages)]
        again = index.second(addresses, array("Q", later), START, PAGE_SIZE, tags)
        found.append((bytes(tags), again))
    assert found[0] == found[1]
    assert 100 < found[0][1].changed < 200
    assert len(found[0][1].hashes) > 300


@pytest.mark.parametrize("native", [None, "compiled"])
def test_no_page_with_a_partner_is_missed_and_few_without_one_pass(native: str | None) -> None:
    chance = random.Random(7)
    index = PageIndex(20_000, compiled() if native else None)
    contents = [chance.getrandbits(64) for _ in range(15_000)]
    pages = array("Q", contents + contents[:5000])
    addresses = array("Q", range(START, START + len(pages) * PAGE_SIZE, PAGE_SIZE))
    tags = bytearray(len(pages))
    index.first(addresses, pages, START, PAGE_SIZE, tags)
    again = index.second(addresses, pages, START, PAGE_SIZE, tags)
    assert set(contents[:5000]) <= set(again.hashes)
    assert again.changed == 0
    assert len(again.hashes) - 10_000 < 0.05 * 10_000


@pytest.mark.parametrize("native", [None, "compiled"])
def test_a_page_without_a_tag_is_refused(native: str | None) -> None:
    index = PageIndex(8, compiled() if native else None)
    for address in (START - PAGE_SIZE, START + 4 * PAGE_SIZE, (1 << 64) - PAGE_SIZE):
        with pytest.raises(ValueError, match="without a tag"):
            index.first(array("Q", [address]), array("Q", [1]), START, PAGE_SIZE, bytearray(4))
        with pytest.raises(ValueError, match="without a tag"):
            index.second(array("Q", [address]), array("Q", [1]), START, PAGE_SIZE, bytearray(4))


def test_sizes_that_do_not_fit_are_refused_and_nothing_is_written() -> None:
    native = compiled()
    one, tags = array("Q", [START]), bytearray(4)
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
                native.look(fd, fd, start, pages, size, 0, 0, bytearray(length))
        with pytest.raises(OSError, match="Bad file"):
            native.look(-1, -1, 0, 1, 4096, 0, 0, bytearray(4096))
        with pytest.raises(OverflowError):
            native.look(fd, fd, 0, 1 << 80, 4096, 0, 0, bytearray(4096))
        with pytest.raises((BufferError, TypeError, ValueError)):
            native.look(fd, fd, 0, 1, 4096, 0, 0, bytes(4096))
    for addresses, hashes, page, once, more in (
        (one, array("Q"), 4096, 8, 8),
        (one, one, 4096, 8, 16),
        (one, one, 4096, 0, 0),
        (one, one, 4096, 12, 12),
        (one, one, 0, 8, 8),
        (b"1234567", b"1234567", 4096, 8, 8),
    ):
        with pytest.raises(ValueError, match=r"do not fit|one size"):
            native.first(addresses, hashes, START, page, tags, bytearray(once), bytearray(more))
    assert tags == bytes(4)


def test_an_empty_array_may_be_anywhere() -> None:
    # that of Python's own empty array is at no boundary
    nothing, tags = memoryview(bytearray(17))[1:1], bytearray(4)
    once, more = bytearray(8), bytearray(8)
    compiled().first(nothing, nothing, START, PAGE_SIZE, tags, once, more)
    assert compiled().second(nothing, nothing, START, PAGE_SIZE, tags, more) == (0, b"", b"")
    misplaced = memoryview(bytearray(17))[1:9]
    with pytest.raises(ValueError, match="do not fit"):
        compiled().first(misplaced, misplaced, 0, PAGE_SIZE, bytearray(1 << 16), once, more)
