"""Runs inside a virtual host: processes that touch memory in known ways, and the sources of active memory beside them.

Each process stands for a QEMU: its memory is marked as a RAM block is. It keeps count of what it touched, so the truth
is known to the page.
"""

from __future__ import annotations

import mmap
import os
import random
import signal
import struct
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from lab.memory_ledger import MemoryLedger
from memhint.kernel.clearings import Clearings
from memhint.kernel.damon import BASE, Damon
from memhint.kernel.damon_watch import DamonWatch
from memhint.kernel.errors import InterfaceInUse
from memhint.kernel.referenced import ReferencedWatch
from memhint.kernel.root import KernelRoot

MIB = 1 << 20
PAGE = 4096
SIZE = 64 * MIB
PAGES = SIZE // PAGE
ROOT = KernelRoot()
KDAMONDS = Path("/") / BASE
BOOT = "this boot"
WINDOW = 4.0  # seconds
SCRATCH = 64  # pages
AGES = (WINDOW, 3 * WINDOW)
SWITCH = 14.0  # seconds from the beginning of a workload of two phases to the second one
SETTLED = 2.0  # seconds after it, for a process that is amid a round of touches just then
PATIENCE = 300.0  # seconds more for a machine that is too busy to read in time
PREFERENCE = 60.0  # seconds more for a window of which the truth is known for sure
LONGEST = 1.1
"""How much longer than asked for a window may be. A machine that has no processor left reads late: the truth is then of
a longer time than the window was, and more was touched in it."""
STEADY = SIZE // 20
"""Bytes. DAMON tells of every window since it was read last, and where its thread is late, of the one before: the truth
is known where about as much was touched in all of them."""


class Player:
    """A process that plays a workload for ever, and writes down when it last touched each page."""

    def __init__(self, workload: str) -> None:
        self._clock = mmap.mmap(-1, PAGES * 8)  # shared: a moment per page
        ready, done = os.pipe()
        self.pid = os.fork()
        if not self.pid:
            os.close(ready)
            with suppress(BaseException):
                _play(workload, self._clock, done)
            os._exit(1)
        os.close(done)
        assert os.read(ready, 1) == b"r"
        os.close(ready)

    def touched(self, since: float) -> int:
        """Bytes that were touched at that moment or later."""
        return PAGE * sum(at >= since for (at,) in struct.iter_unpack("d", self._clock[:]))

    def end(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)


def _play(workload: str, clock: mmap.mmap, done: int) -> None:
    memory = mmap.mmap(-1, SIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory.madvise(mmap.MADV_NOHUGEPAGE)
    memory.madvise(mmap.MADV_DONTFORK)  # as QEMU marks its RAM
    memory[::PAGE] = bytes(PAGES)
    scratch = mmap.mmap(-1, SCRATCH * PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    scratch.madvise(mmap.MADV_NOHUGEPAGE)
    times = memoryview(clock).cast("d")
    os.write(done, b"r")
    began, dice = time.monotonic(), random.Random(7)
    while True:
        now = time.monotonic()
        for first, count in _next(workload, now - began, dice):
            # both in one call each: what is written down is what was touched
            memory[first * PAGE : (first + count) * PAGE : PAGE] = b"x" * count
            times[first : first + count] = memoryview(struct.pack("d", now) * count).cast("d")
        # The emulated processor keeps every translation until another process runs there; a real one has room for some
        # 1,500. To unmap more pages than x86 flushes one by one (33) empties its TLB.
        scratch[::PAGE] = bytes(SCRATCH)
        scratch.madvise(mmap.MADV_DONTNEED)
        time.sleep(0.05)


def _next(workload: str, elapsed: float, dice: random.Random) -> list[tuple[int, int]]:
    """Runs of pages to touch now, twenty times a second."""
    third = PAGES // 3
    if workload == "sequential":  # through one third, over and over, within two seconds
        step = third // 40
        return [(int(elapsed * 20) % 40 * step, step)]
    if workload == "random":  # single pages of half the memory, all of it
        return [(dice.randrange(PAGES // 2), 1) for _ in range(600)]
    if workload == "zipf":  # rank r is drawn with weight 1/r, and ranks lie scattered
        return [(int(PAGES ** dice.random()) * 40503 % PAGES, 1) for _ in range(300)]
    if workload == "phases":  # another quarter from some time on
        quarter = PAGES // 4
        return [(quarter * (2 if elapsed > SWITCH else 0), quarter)]
    return []


class _Watched:
    """One process, and what a source has found of it beside the truth of the same window."""

    def __init__(self, source: str, workload: str, damon: Damon) -> None:
        self._player = Player(workload)
        self._pid = self._player.pid
        self._clearings = Clearings()
        self._watch: DamonWatch | ReferencedWatch
        if source == "damon":
            self._watch = DamonWatch(ROOT, damon, self._pid, WINDOW, regions=400, ages=AGES)
        else:
            self._watch = ReferencedWatch(ROOT, self._pid, AGES[-1], clearings=self._clearings, ages=AGES)
        self.due = 0.0
        self.found: list[dict[str, Any]] = []
        self._read = time.monotonic()  # when it was read last
        self._touched: list[int] = []  # bytes, in windows that ended since the reading before

    def step(self) -> None:
        before = self._watch.newest
        self.due = self._watch.step(time.monotonic())
        seen, now = self._watch.newest, time.monotonic()
        if seen is None or (before is not None and seen.at == before.at):
            return
        # Bits count from when they were cleared; DAMON's windows follow each other, and it is read as one ends.
        began = max(self._read, self._clearings.last(self._pid))
        self._read = now
        exact = isinstance(self._watch, ReferencedWatch)
        truth = [self._player.touched(began)] if exact else [*self._touched, self._player.touched(now - WINDOW)]
        self._touched = truth[-1:]
        if not seen.idle or (before is not None and before.idle[:1] == seen.idle[:1]):
            return
        lasted = now - began
        windows = 1 if exact else max(1, int(lasted / WINDOW + 0.1))  # one may be too long, and never too short
        if lasted > windows * LONGEST * WINDOW:
            return
        steady = exact or (len(truth) > windows and max(truth) - min(truth) <= STEADY)
        self.found.append(
            {
                "began": began, "lasted": lasted, "windows": windows, "steady": steady,
                "active": seen.active, "truth": sum(truth) // len(truth), "error": seen.error,
                "cpu_percent": seen.cpu_percent, "idle": [[one.age, one.bytes] for one in seen.idle],
                "idle_truth": SIZE - self._player.touched(now - AGES[-1]),
            }
        )  # fmt: skip

    def look(self) -> None:
        """Keep how much was touched within the window that ends now, where it may not be read by itself."""
        if isinstance(self._watch, DamonWatch):
            self._touched.append(self._player.touched(time.monotonic() - WINDOW))

    def end(self) -> None:
        self._watch.close()
        self._player.end()


def measure(source: str, workloads: list[str], at: float) -> dict[str, list[dict[str, Any]]]:
    """What a source finds of processes side by side, by windows, for `at` seconds. Bytes; percent of a core.

    DAMON answers one question at a time, so where windows of two processes end together, one of them is read every
    second window. Where the machine is so busy that none is of the length asked for it goes on: the last one has to
    have begun in the second phase, with all the ages that are asked for. The best reading of each workload comes last.
    """
    damon = Damon(ROOT, MemoryLedger(), BOOT, time.time, slots=len(workloads))
    watched = {workload: _Watched(source, workload, damon) for workload in workloads}
    try:
        began = time.monotonic()
        until = began + at

        def lacks(*wanted: bool) -> bool:
            return any(max(map(worth, one.found), default=()) < wanted for one in watched.values())

        def worth(found: dict[str, Any]) -> tuple[Any, ...]:
            return _complete(found, began), found["steady"], found["began"]

        while (
            (now := time.monotonic()) < until
            or (lacks(True) and now < until + PATIENCE)
            or (lacks(True, True) and now < until + PREFERENCE)
        ):
            for one in watched.values():
                if one.due <= now:
                    one.step()
                    for each in watched.values():  # it waited for the end of a window: others have ended meanwhile
                        each.look()
            due = min(one.due for one in watched.values())
            time.sleep(max(0.0, (due if now >= until else min(due, until)) - time.monotonic()))
        return {workload: sorted(one.found, key=worth) for workload, one in watched.items()}
    finally:
        for one in watched.values():
            one.end()
        damon.release()


def _complete(found: dict[str, Any], began: float) -> bool:
    """Whether its window lies in the second phase, and every age has been observed."""
    return bool(found["began"] > began + SWITCH + SETTLED) and len(found["idle"]) == len(AGES)


def nr_kdamonds() -> int:
    """How many there are."""
    return int((KDAMONDS / "nr_kdamonds").read_text())


def beside_another() -> dict[str, Any]:
    """DAMON while somebody else has a kdamond that is set and does not run: what memhint says, and what is left."""
    (KDAMONDS / "nr_kdamonds").write_text("1")
    (KDAMONDS / "0/contexts/nr_contexts").write_text("1")
    (KDAMONDS / "0/contexts/0/operations").write_text("paddr")
    player = Player("idle")
    ledger = MemoryLedger()
    damon = Damon(ROOT, ledger, BOOT, time.time, slots=2)
    try:
        DamonWatch(ROOT, damon, player.pid, WINDOW, regions=20, ages=AGES).step(0.0)
        said = ""
    except InterfaceInUse as error:
        said = str(error)
    finally:
        damon.release()
        player.end()
    left = (KDAMONDS / "0/contexts/0/operations").read_text().strip()
    (KDAMONDS / "nr_kdamonds").write_text("0")
    return {"said": said, "left": left, "marks": len(ledger.all())}


def killed_agent() -> dict[str, Any]:
    """A watch whose agent is gone, and what its successor does: stops it, watches by itself, and leaves nothing."""
    player, ledger = Player("idle"), MemoryLedger()
    DamonWatch(ROOT, Damon(ROOT, ledger, BOOT, time.time, slots=2), player.pid, WINDOW, regions=20, ages=AGES).step(0.0)
    left = (KDAMONDS / "0/state").read_text().strip()
    successor = Damon(ROOT, ledger, BOOT, time.time, slots=2)
    watch = DamonWatch(ROOT, successor, player.pid, WINDOW, regions=20, ages=AGES)
    watch.step(0.0)
    again = (KDAMONDS / "0/state").read_text().strip()
    watch.close()
    successor.release()
    player.end()
    return {"left": left, "again": again, "after": nr_kdamonds(), "marks": len(ledger.all())}


def ended_process() -> str:
    """What is said of a process that ends while it is watched."""
    player, damon = Player("idle"), Damon(ROOT, MemoryLedger(), BOOT, time.time, slots=2)
    watch = DamonWatch(ROOT, damon, player.pid, WINDOW, regions=20, ages=AGES)
    watch.step(0.0)
    player.end()
    deadline = time.monotonic() + 60
    try:
        while (now := time.monotonic()) < deadline:
            time.sleep(max(0.0, watch.step(now) - time.monotonic()))
        return "nothing"
    except Exception as error:  # noqa: BLE001 - its kind is the answer
        return type(error).__name__
    finally:
        watch.close()
        damon.release()
