"""The finder against what KSM of this machine's kernel then merges, with processes that stand for VMs.

Three kinds of data, as in the founding test of parallel merging: what one process has alone, what all have, and what
differs in all but 128 bytes of zeros at the beginning of each page. Truth is the page frames behind the processes.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from array import array
from collections.abc import Iterator

import pytest

from lab.sizes import MIB
from lab.waiting import wait_for
from memhint.kernel.guest_pages import guest_ram
from memhint.kernel.ksm import KsmKnob, read_knob, read_ksm, write_knob
from memhint.kernel.process import process_memory
from memhint.kernel.root import PAGE_SIZE, KernelRoot
from memhint.pages.finder import Finder, FinderSettings, Found
from memhint.planner.dedup_estimate import KsmPace, estimate

ROOT = KernelRoot()
EACH = 16 * MIB  # of each kind, in each process
VMS = 4
SCANS = 4
OFF = "0"

# Fills its memory, says so, and marks it as mergeable when it is told to. MADV_DONTFORK is how QEMU marks a RAM block.
PROGRAM = f"""
import ctypes, mmap, random, sys
size = {EACH}
memory = mmap.mmap(-1, 3 * size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
memory.madvise(mmap.MADV_NOHUGEPAGE)
memory.madvise(mmap.MADV_DONTFORK)
own, common = random.Random(int(sys.argv[1])), random.Random(0)
memory.write(own.randbytes(size))
memory.write(common.randbytes(size))
for page in range(size // {PAGE_SIZE}):
    memory.write(bytes(128) + own.randbytes({PAGE_SIZE} - 128))
print("filled", flush=True)
for line in sys.stdin:
    memory.madvise(mmap.MADV_MERGEABLE)
    print("marked", flush=True)
"""


class Standing:
    """A process that stands for a VM."""

    def __init__(self, seed: int) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(seed)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def says(self, word: str) -> None:
        assert self.process.stdout is not None
        assert self.process.stdout.readline().strip() == word

    def mark(self) -> None:
        assert self.process.stdin is not None
        print("mark", file=self.process.stdin, flush=True)
        self.says("marked")

    def end(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def standing() -> Iterator[list[Standing]]:
    found = [Standing(seed) for seed in range(1, VMS + 1)]
    try:
        for one in found:
            one.says("filled")
        yield found
    finally:
        for one in found:
            one.end()


@pytest.fixture
def ksm() -> Iterator[None]:
    """KSM flat out, and as it was in the end; whoever uses it keeps it."""
    if read_knob(ROOT, KsmKnob.RUN) != OFF:
        pytest.skip("this machine's KSM is in use: the test needs it for itself")
    wanted = {KsmKnob.ADVISOR_MODE: "none", KsmKnob.PAGES_TO_SCAN: "20000", KsmKnob.SLEEP_MILLISECS: "5"}
    before = {knob: read_knob(ROOT, knob) for knob in (*wanted, KsmKnob.SMART_SCAN)}
    try:
        for knob, value in {**wanted, KsmKnob.SMART_SCAN: "0", KsmKnob.RUN: "1"}.items():
            write_knob(ROOT, knob, value)
        yield
    finally:
        write_knob(ROOT, KsmKnob.RUN, OFF)
        mode = before.pop(KsmKnob.ADVISOR_MODE)
        if mode != "none":
            before.pop(KsmKnob.PAGES_TO_SCAN)  # the advisor's own, which refuses it
        for knob, value in before.items():
            write_knob(ROOT, knob, value)
        write_knob(ROOT, KsmKnob.ADVISOR_MODE, mode)


def frames(pid: int) -> list[int]:
    """The page frame behind every page that is present."""
    found: list[int] = []
    with open(f"/proc/{pid}/pagemap", "rb", buffering=0) as pagemap:
        for span in guest_ram(ROOT, pid):
            entries = array("Q")
            entries.frombytes(os.pread(pagemap.fileno(), (span.end - span.start) // PAGE_SIZE * 8, span.start >> 9))
            found.extend(entry & ((1 << 55) - 1) for entry in entries if entry >> 63 & 1)
    return found


def merged(standing: list[Standing]) -> int:
    every = [frame for one in standing for frame in frames(one.process.pid)]
    return (len(every) - len(set(every))) * PAGE_SIZE


def find(standing: list[Standing]) -> Found:
    finder = Finder(ROOT, PAGE_SIZE, 7, FinderSettings(2, 200.0, 1 << 34, 0.2))
    processes = {str(one.process.pid): process_memory(ROOT, one.process.pid) for one in standing}
    found = finder.round(processes, threading.Event())
    assert found is not None
    assert not found.failed
    return found


def test_what_the_finder_finds_is_what_ksm_then_merges(standing: list[Standing], ksm: None) -> None:
    found = find(standing)
    group, _ = estimate(found.samples, "p1", PAGE_SIZE, KsmPace())
    assert merged(standing) == 0
    for one in standing:
        one.mark()
    until = read_ksm(ROOT).full_scans + SCANS
    wait_for(lambda: read_ksm(ROOT).full_scans >= until, 300.0, f"{SCANS} full scans")
    truth = merged(standing)
    print(
        f"\nfound {group.saving / MIB:.2f} MiB, merged {truth / MIB:.2f} of {group.looked / MIB:.0f} MiB; "
        f"{found.round.cpu / (found.round.read / PAGE_SIZE) * 1e6:.2f} µs of CPU for each page read; "
        f"{found.round.without_partner / found.round.candidates:.2%} of the candidates without a partner"
    )
    assert truth >= 0.98 * (VMS - 1) * EACH
    assert abs(group.saving - truth) <= 0.02 * truth


def test_a_process_that_ends_while_it_is_looked_at_is_told(standing: list[Standing]) -> None:
    gone = standing[0]
    finder = Finder(ROOT, PAGE_SIZE, 7, FinderSettings(2, 200.0, 1 << 34, 1.0))
    processes = {str(one.process.pid): process_memory(ROOT, one.process.pid) for one in standing}
    timer = threading.Timer(0.5, gone.end)  # between the looks, or within one
    timer.start()
    found = finder.round(processes, threading.Event())
    timer.join()
    assert found is not None
    assert set(found.failed) == {str(gone.process.pid)}
    group, _ = estimate(found.samples, "p1", PAGE_SIZE, KsmPace())
    assert group.saving == (VMS - 2) * EACH
