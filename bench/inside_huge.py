"""Runs inside a virtual host of two nodes: the loads of the bench `thp`, in the settings of one arm."""

from __future__ import annotations

import json
import os
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from memhint.kernel.root import KernelRoot
from memhint.kernel.thp import huge_activity, read_thp
from memhint.kernel.vmstat import read_vmstat
from memhint.levers.khugepaged import KhugepagedLever
from memhint.objects.huge_host import HugeHost
from memhint.objects.ownership import Mark
from memhint.planner.compaction import Compaction, next_compaction

PROGRAM = "/inside/huge"
FOLDER = "/files"
THP = Path("/sys/kernel/mm/transparent_hugepage")
RECLAIM_NEAR = Path("/proc/sys/vm/zone_reclaim_mode")
COUNTERS = (
    "thp_fault_alloc",
    "thp_fault_fallback",
    "compact_stall",
    "compact_fail",
    "compact_migrate_scanned",
    "compact_free_scanned",
    "pgscan_direct",
    "pgsteal_direct",
)
SETTLE = 1.0  # seconds of its own clock
FULL = 24 << 20  # bytes free, of a host whose page cache is as large as it can be
ROOT = KernelRoot()


class _Marks:
    """The marks of an agent, as long as this process lives."""

    def __init__(self) -> None:
        self._marks: dict[tuple[str, str], Mark] = {}

    def put(self, mark: Mark) -> None:
        self._marks[mark.subject, mark.knob] = mark

    def get(self, subject: str, knob: str) -> Mark | None:
        return self._marks.get((subject, knob))

    def remove(self, subject: str, knob: str) -> None:
        self._marks.pop((subject, knob), None)

    def all(self) -> tuple[Mark, ...]:
        return tuple(self._marks.values())


def usemem(setting: str, near: bool, period: float, threads: int, mib: int) -> dict[str, Any]:
    """Threads use so many MiB in all, on a host with nothing else."""
    return _measured(setting, near, period, "usemem", threads, mib)


def faults(setting: str, near: bool, period: float, mib: int, advised: bool) -> dict[str, Any]:
    """Somebody wants huge pages."""
    return _measured(setting, near, period, "faults", mib, "advised" if advised else "plain")


def available() -> int:
    """MiB that can be had: the machine's own files are memory, too, and cannot be reclaimed."""
    (line,) = (line for line in Path("/proc/meminfo").read_text().splitlines() if line.startswith("MemAvailable:"))
    return int(line.split()[1]) // 1024


def fragment(files: int) -> dict[str, Any]:
    """Fill the page cache of both nodes with files written a page at a time; readers stay until `calm`."""
    _run("busybox", "mke2fs", "/dev/vda")
    os.makedirs(FOLDER, exist_ok=True)
    _run("mount", "-t", "ext4", "/dev/vda", FOLDER)
    found = _ours("write", FOLDER, files)
    _readers.extend(
        subprocess.Popen([PROGRAM, "read", FOLDER, str(files), str(seed)], stdout=subprocess.DEVNULL) for seed in (0, 1)
    )
    return {**found, "readers": all(one.poll() is None for one in _readers)}


def alive() -> bool:
    """Whether the readers still read."""
    return bool(_readers) and all(one.poll() is None for one in _readers)


_readers: list[subprocess.Popen[bytes]] = []


def _measured(setting: str, near: bool, period: float, *words: object) -> dict[str, Any]:
    _settled()
    (THP / "enabled").write_text("always")
    (THP / "defrag").write_text(setting)
    RECLAIM_NEAR.write_text("1" if near else "0")
    before = _counters()
    with _rule(period) if period else _nothing() as told:
        found = _ours(*words)
    after = _counters()
    return {**found, **{name: after[name] - before[name] for name in COUNTERS}, "rule": told}


def _settled() -> None:
    """Wait until the readers have filled again what the load before has left free, or there are none."""
    until = time.monotonic() + SETTLE
    while _readers and time.monotonic() < until:
        free = _free()
        if free < FULL:
            return
        time.sleep(0.05)


@contextmanager
def _nothing() -> Iterator[list[str]]:
    yield []


@contextmanager
def _rule(period: float) -> Iterator[list[str]]:
    """memhint's rule for `defrag`, by its own planner and its own lever, every so many seconds."""
    lever = KhugepagedLever(ROOT, _Marks(), "boot", time.time, own=True, most=64)
    host: Any = SimpleNamespace(thp=read_thp(ROOT))
    ended, told = threading.Event(), []

    def look() -> None:
        state, at = next_compaction(Compaction(), huge_activity(ROOT), None), time.monotonic()
        while not ended.wait(period):
            elapsed, at = time.monotonic() - at, time.monotonic()
            state = next_compaction(state, huge_activity(ROOT), elapsed)
            verdict = lever.reconcile(HugeHost(defrag="defer" if state.vain else None), [], host, dry_run=False).host
            if verdict.detail:
                told.append(verdict.detail)

    agent = threading.Thread(target=look)
    agent.start()
    try:
        yield told
    finally:
        ended.set()
        agent.join()
        lever.undo([], host)


def _free() -> int:
    (line,) = (line for line in Path("/proc/meminfo").read_text().splitlines() if line.startswith("MemFree:"))
    return int(line.split()[1]) * 1024


def _counters() -> Mapping[str, int]:
    found = read_vmstat(ROOT)
    return {name: found.number(name) for name in COUNTERS}


def _ours(*words: object) -> dict[str, Any]:
    os.chmod(PROGRAM, 0o755)
    answer: dict[str, Any] = json.loads(_run(PROGRAM, *map(str, words)))
    return answer


def _run(*command: str) -> str:
    done = subprocess.run(["/bin/busybox", *command[1:]] if command[0] == "busybox" else command, capture_output=True)
    if done.returncode:
        raise RuntimeError(f"{command}: {done.returncode} {done.stderr.decode()[-500:]}")
    return done.stdout.decode()
