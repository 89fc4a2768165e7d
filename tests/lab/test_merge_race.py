"""Writers against merging: memhint's finder and lever, real QEMUs, this machine's KSM flat out.

Each page of each VM is seen to hold what was written last, and no page frame is ever behind VMs of two projects.

MEMHINT_RACE_SECONDS=600 lets them race for longer.
"""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import threading
import time
from array import array
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench import ksm
from bench.paused_vms import BACKEND, PausedVm, paused_vms
from lab.patched import emulator_program
from memhint.kernel.host import observe_host, read_memory
from memhint.kernel.ksm import read_ksm
from memhint.kernel.root import PAGE_SIZE, KernelRoot
from memhint.levers.dedup import DedupLever
from memhint.objects.merge_ranges import RangeChoice
from memhint.objects.units import MIB
from memhint.pages.finder import Finder, FinderSettings
from memhint.planner.dedup import DedupPlan
from memhint.store.database import open_store
from tests.lab import page_writer

ROOT = KernelRoot()
SIZE = 16 * MIB
PAGES = SIZE // PAGE_SIZE
SECONDS = float(os.environ.get("MEMHINT_RACE_SECONDS", "8"))
PATIENCE = 240.0  # KSM's thread is nice, and a busy machine leaves it little


class Writer:
    """One that writes a VM's memory."""

    def __init__(self, vm: PausedVm, seed: int) -> None:
        address = vm.monitor.memory_blocks()[BACKEND].address
        self.process = subprocess.Popen(
            [sys.executable, page_writer.__file__, str(vm.pid), str(address), str(PAGES), str(seed)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def says(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def ended(self) -> str:
        """Its last word."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        return self.says()


@pytest.fixture
def vms(tmp_path: Path) -> Iterator[tuple[list[PausedVm], PausedVm]]:
    """Three of one project, and one of another, which is defined with merge=off: its QEMU marks it all the same."""
    program = emulator_program()
    with (
        paused_vms(program, tmp_path, 3, SIZE) as mine,
        paused_vms(program, tmp_path, 1, SIZE, "other", merge=False) as others,
    ):
        yield mine, others[0]


@pytest.fixture
def writers(vms: tuple[list[PausedVm], PausedVm]) -> Iterator[list[Writer]]:
    found = [Writer(vm, seed) for seed, vm in enumerate([*vms[0], vms[1]])]
    try:
        for one in found:
            assert one.says() == "filled"
        yield found
    finally:
        for one in found:
            one.process.kill()
            one.process.wait()


def frames(vm: PausedVm) -> set[int]:
    """The page frames behind its memory."""
    address = vm.monitor.memory_blocks()[BACKEND].address
    with Path(f"/proc/{vm.pid}/pagemap").open("rb", buffering=0) as pagemap:
        entries = array("Q", os.pread(pagemap.fileno(), PAGES * 8, address // PAGE_SIZE * 8))
    return {entry & ((1 << 55) - 1) for entry in entries if entry >> 63 & 1}


def test_nothing_is_lost_and_nothing_crosses(
    vms: tuple[list[PausedVm], PausedVm], writers: list[Writer], tmp_path: Path
) -> None:
    mine, other = vms
    every = {vm.name: vm for vm in (*mine, other)}
    choices: dict[str, RangeChoice] = {}
    finder = Finder(ROOT, PAGE_SIZE, 7, FinderSettings(2, 200.0, 1 << 40, 0.1))
    store = open_store(f"sqlite:///{tmp_path / 'marks.db'}", host="race")
    most, looks = 0, 0
    try:
        with ksm.kept():
            lever = DedupLever(
                ROOT,
                store.marks,
                lambda uuid: every[uuid].monitor,
                ksm.NO_PACE,
                "race",
                lambda _: 0,
                lambda: read_memory(ROOT).available,
                time.time,
                lambda uuid, _: choices.get(uuid),
            )
            before = read_ksm(ROOT).cow_breaks or 0
            until = time.monotonic() + SECONDS
            for turn in itertools.count():
                found = finder.round({vm.name: vm.process() for vm in mine}, threading.Event())
                assert found is not None
                assert not found.failed
                if turn % 4 < 2:  # parts of each; then all of it, for a while
                    choices.update(found.ranges)
                else:
                    choices.clear()
                # One leaves now and then, which separates all of its pages.
                members = frozenset(vm.name for vm in mine[: 2 if turn % 4 == 3 else 3])
                outcome = lever.reconcile(
                    DedupPlan(members, "mine", {}),
                    [vm.observed() for vm in every.values()],
                    observe_host(ROOT, time.time()),
                    dry_run=False,
                )
                assert outcome.verdicts[other.name].ok, outcome.verdicts[other.name]
                crossing = frames(other) & set().union(*(frames(vm) for vm in mine))
                assert not crossing
                most, looks = max(most, sum(vm.process().ksm_merging or 0 for vm in mine)), looks + 1
                assert all(one.process.poll() is None for one in writers)
                if time.monotonic() > until and most and (read_ksm(ROOT).cow_breaks or 0) > before:
                    break
                assert time.monotonic() < until + PATIENCE, "KSM does not get to it"
            breaks = (read_ksm(ROOT).cow_breaks or 0) - before
            words = [one.ended() for one in writers]
        assert all(word.isdigit() for word in words), words
        written = sum(map(int, words))
        print(f"\n{looks} rounds, at most {most // MIB} MiB merged, {breaks} breaks, {written} pages written")
        assert written > 0
        assert breaks > 0
    finally:
        store.close()
