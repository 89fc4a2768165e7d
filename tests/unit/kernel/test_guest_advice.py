"""A guest's memory made old and used again, on the kernel at hand; what is mapped of it; who else cleared the bits."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence

import pytest

from memhint.kernel.clearings import Clearings
from memhint.kernel.errors import InterfaceUnreadable, KernelInterfaceError, ProcessGone
from memhint.kernel.guest_advice import GuestAdvice, Swapped
from memhint.kernel.process import process_memory
from memhint.kernel.process_vm_readv import AT_ONCE, touch_pages
from memhint.kernel.root import KernelRoot
from memhint.objects.units import MIB

SIZE = 32 * MIB
# As QEMU holds its guest's memory: private, anonymous and not for children. A line has it touch so many pages.
GUEST = f"""
import mmap, sys
memory = mmap.mmap(-1, {SIZE}, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
memory.madvise(mmap.MADV_DONTFORK)
memory.madvise(mmap.MADV_NOHUGEPAGE)
line = "{SIZE // 4096}"
while line:
    for page in range(int(line)):
        memory[page * 4096] = 1
    print("ready", flush=True)
    line = sys.stdin.readline()
"""


class Child:
    """A process that stands for a QEMU."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self.touch(None)
        self.pid = process.pid
        self.instance = process_memory(KernelRoot(), self.pid).instance

    def touch(self, pages: int | None) -> None:
        """Have it touch its first pages; None waits for those that it begins with."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        if pages is not None:
            self._process.stdin.write(b"%d\n" % pages)
            self._process.stdin.flush()
        assert self._process.stdout.readline() == b"ready\n"


@pytest.fixture
def child() -> Iterator[Child]:
    with subprocess.Popen([sys.executable, "-c", GUEST], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        yield Child(process)
        process.kill()


def test_what_was_made_old_counts_as_used_once_it_is_touched(child: Child) -> None:
    with GuestAdvice(KernelRoot(), child.instance) as guest:
        full = guest.look()
        assert SIZE <= full.resident < SIZE + MIB
        try:
            guest.age()
        except KernelInterfaceError as error:
            pytest.skip(f"this kernel lets nobody advise another process here: {error}")
        assert guest.look().referenced < MIB
        child.touch(1024)
        assert 4 * MIB <= guest.look().referenced < 5 * MIB
        assert guest.look().resident == full.resident


def test_a_process_that_ended_or_whose_pid_is_another_s_now_is_gone(child: Child) -> None:
    for instance in (f"{child.pid}:1", "4194304:1"):
        with pytest.raises(ProcessGone):
            GuestAdvice(KernelRoot(), instance)


def test_one_that_ends_while_it_is_open_is_gone(child: Child) -> None:
    with GuestAdvice(KernelRoot(), child.instance) as guest:
        child._process.kill()
        child._process.wait()
        for call in (guest.look, guest.age):
            with pytest.raises(ProcessGone):
                call()


def test_what_the_kernel_does_not_take_is_said(child: Child, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr("memhint.kernel.guest_advice.process_madvise", refuse)
    with (
        GuestAdvice(KernelRoot(), child.instance) as guest,
        pytest.raises(InterfaceUnreadable, match="not permitted"),
    ):
        guest.age()


def test_a_kernel_that_takes_a_part_is_asked_for_the_rest(child: Child, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def half(pidfd: int, start: int, length: int, advice: int) -> int:
        asked.append(length)
        return max(1, length // 2)

    monkeypatch.setattr("memhint.kernel.guest_advice.process_madvise", half)
    with GuestAdvice(KernelRoot(), child.instance) as guest:
        size = sum(span.size for span in guest.look().spans)
        guest.age()
    assert asked[0] == size
    assert asked[-1] == 1
    assert sum(max(1, length // 2) for length in asked) == size


BLOCK = Swapped(1 << 30, 2 * MIB, MIB)
PRESENT, SWAP, HOLE = 0x80, 0x40, 0


def of_flags(
    child: Child, monkeypatch: pytest.MonkeyPatch, flags: bytes, error: OSError | None = None
) -> tuple[GuestAdvice, list[int]]:
    """A guest whose block has these flags, and the pages that were touched for it."""
    touched: list[int] = []

    def touch(pid: int, pages: Sequence[int]) -> int:
        assert pid == child.pid
        if error is not None:
            raise error
        touched.extend(pages)
        return len(pages)

    monkeypatch.setattr("memhint.kernel.guest_advice.touch_pages", touch)
    monkeypatch.setattr(GuestAdvice, "_flags", lambda *_: flags)
    return GuestAdvice(KernelRoot(), child.instance), touched


def test_what_is_in_swap_is_mapped_but_for_one_page_in_32(child: Child, monkeypatch: pytest.MonkeyPatch) -> None:
    swap = [*range(40, 140), 511]
    flags = bytes(SWAP if at in swap else PRESENT if at % 2 else HOLE for at in range(512))
    guest, touched = of_flags(child, monkeypatch, flags)
    with guest:
        done = guest.map(BLOCK)
    left = (40, 72, 104, 136)
    assert touched == [BLOCK.start + 4096 * at for at in swap if at not in left]
    assert (done.size, done.left) == (4096 * (len(swap) - len(left)), left)


def test_how_many_of_those_that_were_left_it_has_not_used_is_seen(
    child: Child, monkeypatch: pytest.MonkeyPatch
) -> None:
    with of_flags(child, monkeypatch, bytes([SWAP] * 512))[0] as guest:
        done = guest.map(BLOCK)
    now = bytes([PRESENT] * 320 + [SWAP] * 192)
    with of_flags(child, monkeypatch, now)[0] as guest:
        assert (len(done.left), guest.untouched(done)) == (16, 6)
    with of_flags(child, monkeypatch, b"")[0] as guest, pytest.raises(ProcessGone):
        guest.untouched(done)


def test_where_nobody_may_read_it_nothing_is_mapped(child: Child, monkeypatch: pytest.MonkeyPatch) -> None:
    flags = bytes([SWAP] * 512)
    with of_flags(child, monkeypatch, flags, PermissionError(1, "Operation not permitted"))[0] as guest:
        assert (guest.map(BLOCK).size, guest.map(BLOCK).left) == (0, ())
    with (
        of_flags(child, monkeypatch, flags, ProcessLookupError(3, "No such process"))[0] as guest,
        pytest.raises(ProcessGone),
    ):
        guest.map(BLOCK)


def test_pages_of_another_process_are_touched_as_far_as_they_are_mapped(child: Child) -> None:
    with GuestAdvice(KernelRoot(), child.instance) as guest:
        (span,) = (one for one in guest.look().spans if one.size >= SIZE)
    pages = range(span.start, span.end, 4096)
    assert len(pages) > AT_ONCE
    try:
        assert touch_pages(child.pid, pages) == len(pages)
    except PermissionError:
        pytest.skip("this machine lets nobody read another process here")
    assert touch_pages(child.pid, [pages[0], pages[1], 4096, pages[2]]) == 2
    with pytest.raises(OSError, match="Bad address"):
        touch_pages(child.pid, [4096])
    with pytest.raises(ProcessLookupError):
        touch_pages(4194304, [pages[0]])


def test_the_newest_clearing_of_each_process_is_known_and_the_oldest_is_forgotten() -> None:
    clearings = Clearings()
    assert clearings.last(1) == float("-inf")
    for pid in range(5000):
        clearings.note(pid, float(pid))
    clearings.note(4999, 7000.0)
    assert clearings.last(4999) == 7000.0
    assert clearings.last(4000) == 4000.0
    assert clearings.last(1) == float("-inf")
