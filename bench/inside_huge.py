"""Runs inside a virtual host of two nodes: the loads of the bench `thp`, in the settings of one arm."""

from __future__ import annotations

import json
import os
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from lab.memory_ledger import MemoryLedger
from memhint.kernel.buddy import free_in_blocks
from memhint.kernel.numa import numa_nodes
from memhint.kernel.root import KernelRoot
from memhint.kernel.thp import HUGE_PAGE, compaction_waits, read_thp
from memhint.kernel.vmstat import read_vmstat
from memhint.levers.khugepaged import KhugepagedLever
from memhint.objects.huge_host import NO_WAITING, HugeHost
from memhint.planner.compaction import Compaction, HugeWaits, lacking_on, next_compaction, turns_vain

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
CYCLE = 10.0  # seconds of an agent's clock from one cycle to the next
LOOKS = 10  # at the waits alone, in each of them
SETTLE = 1.0  # seconds of its own clock
FULL = 24 << 20  # bytes free, of a host whose page cache is as large as it can be
LITTLE = 8 << 20  # by which what is free differs from one moment to the next
ROOT = KernelRoot()


def usemem(setting: str, near: bool, period: float, fresh: bool, threads: int, mib: int) -> dict[str, Any]:
    """Threads use so many MiB in all, on a host with nothing else."""
    return _measured(setting, near, period, fresh, "usemem", threads, mib)


def faults(setting: str, near: bool, period: float, fresh: bool, mib: int, advised: bool) -> dict[str, Any]:
    """Somebody wants huge pages."""
    return _measured(setting, near, period, fresh, "faults", mib, "advised" if advised else "plain")


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
    _Cache.full = max(FULL, _free() + LITTLE)  # few files do not fill it
    _readers.extend(
        subprocess.Popen([PROGRAM, "read", FOLDER, str(files), str(seed)], stdout=subprocess.DEVNULL) for seed in (0, 1)
    )
    return {**found, "readers": all(one.poll() is None for one in _readers)}


def alive() -> bool:
    """Whether the readers still read."""
    return bool(_readers) and all(one.poll() is None for one in _readers)


_readers: list[subprocess.Popen[bytes]] = []


class _Cache:
    full = FULL
    """Bytes free once all that is read is in the page cache, at most."""


def _measured(setting: str, near: bool, period: float, fresh: bool, *words: object) -> dict[str, Any]:
    _settled()
    (THP / "enabled").write_text("always")
    (THP / "defrag").write_text(setting)
    RECLAIM_NEAR.write_text("1" if near else "0")
    before = _counters()
    with _rule(period, fresh) if period else _nothing() as told:
        found = _ours(*words)
    after = _counters()
    return {**found, **{name: after[name] - before[name] for name in COUNTERS}, "rule": told}


def _settled() -> None:
    """Wait until the readers have filled again what the load before has left free, or there are none."""
    until = time.monotonic() + SETTLE
    while _readers and time.monotonic() < until:
        if _free() < _Cache.full:
            return
        time.sleep(0.05)


@contextmanager
def _nothing() -> Iterator[list[str]]:
    yield []


@contextmanager
def _rule(period: float, fresh: bool) -> Iterator[list[str]]:
    """memhint's rule for `defrag`, by its own planner and its own lever, every so many seconds of this clock.

    Each of them is a cycle of an agent. It has run before the load; what it remembers it has of the last call, unless
    it is ``fresh``. As an agent does, it looks at the waits alone ten times within a cycle.
    """
    agent = _Agent(period, fresh)
    agent.cycle()
    ended = threading.Event()

    def run() -> None:
        while not ended.wait(agent.rest()):
            agent.look()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield agent.told
    finally:
        ended.set()
        thread.join()
        agent.end()


class _Agent:
    """Of an agent what the rule takes. It is called by one thread at a time."""

    remembered = Compaction()
    """Of the last of them."""

    def __init__(self, period: float, fresh: bool) -> None:
        self.told: list[str] = []
        self._period = period
        self._scale = CYCLE / period
        self._state = Compaction() if fresh else replace(_Agent.remembered, began=None)
        self._host: Any = SimpleNamespace(thp=read_thp(ROOT), numa=numa_nodes(ROOT), memory=None)
        self._lever = KhugepagedLever(ROOT, MemoryLedger(), "boot", time.time, own=True, most=64)
        self._at: float | None = None

    def cycle(self) -> None:
        """Plan, and pull the lever."""
        now = time.monotonic()
        elapsed = None if self._at is None else (now - self._at) * self._scale
        self._host.free_huge = free_in_blocks(ROOT, HUGE_PAGE)
        lacking = lacking_on(self._host, self._state.lacking)
        self._state, self._at = next_compaction(self._state, _waits(), elapsed, lacking=lacking), now
        wish = HugeHost(defrag=NO_WAITING if self._state.vain else None)
        verdict = self._lever.reconcile(wish, [], self._host, dry_run=False).host
        if verdict.detail:
            self.told.append(verdict.detail)

    def rest(self) -> float:
        """Seconds until there is something to look at."""
        if self._state.watched:
            return self._period / LOOKS
        return max(0.0, self._period - self._passed())

    def look(self) -> None:
        """Between two cycles, or the next one."""
        passed = self._passed()
        if passed >= self._period or turns_vain(self._state, _waits(), passed * self._scale):
            self.cycle()

    def _passed(self) -> float:
        assert self._at is not None
        return time.monotonic() - self._at

    def end(self) -> None:
        """Put back what was set, and keep what was learnt."""
        self._lever.undo([], self._host)
        _Agent.remembered = self._state


def _waits() -> HugeWaits:
    found = compaction_waits(ROOT)
    assert found is not None
    return HugeWaits(*found)


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
