"""Runs inside a virtual host with a fast and a slow NUMA node: processes that stand for QEMUs, and the lever on them.

Each process writes to each page of its hot part over and over, another byte each time, and each page holds its number
besides: what is read back shows that nothing was lost or changed places. Its memory is marked as QEMU marks its RAM.
"""

from __future__ import annotations

import mmap
import os
import re
import signal
import struct
import time
from array import array
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from statistics import median
from typing import Any

from lab.memory_ledger import MemoryLedger
from memhint.kernel.damon import Damon
from memhint.kernel.damon_watch import DamonWatch
from memhint.kernel.guest_ram import read_guest_ram
from memhint.kernel.move_pages import PageMover
from memhint.kernel.numa import memory_may_lie_on, numa_nodes
from memhint.kernel.process import process_memory
from memhint.kernel.root import KernelRoot
from memhint.levers.lever import PassResult
from memhint.levers.tiering import TieringLever, TieringSettings
from memhint.objects.domain import DomainFacts, DomainObservation, DomainState
from memhint.objects.heat import Heat, HeatMap
from memhint.objects.host import HostMemory, HostObservation, Scope
from memhint.planner.tiering import Share, TieringPlan

MIB = 1 << 20
PAGE = 4096
FAST, SLOW = 0, 1
ROOT = KernelRoot()
HOST = HostObservation(0.0, HostMemory(Scope.MACHINE, 0, 0, 0, 0), PAGE)
WINDOW = 2.0  # seconds: the emulated processors get round to every hot page within it, however busy the machine is
SCRATCH = 64  # pages
NODES = Path("/sys/devices/system/node")
# The kernel's own balancing moves what is in use towards the processors: what is seen here is to be the lever's doing.
with suppress(OSError):
    Path("/proc/sys/kernel/numa_balancing").write_text("0")


class Player:
    """A process with ``size`` bytes, of which a range is hot. The numbers that it wrote are shared with who made it."""

    def __init__(self, name: str, size: int, hot: tuple[int, int], *, huge: bool) -> None:
        """:param hot: first and last byte of what it touches"""
        self.name, self.size = name, size
        self._wrote = mmap.mmap(-1, size // PAGE)  # by page: the byte that it wrote last
        self._where = mmap.mmap(-1, PAGE)  # the hot range, which may be changed; then whether to stop and check
        self.heat(*hot)
        ready, done = os.pipe()
        self.pid = os.fork()
        if not self.pid:
            os.close(ready)
            with suppress(BaseException):
                self._play(done, huge)
            os._exit(1)
        os.close(done)
        assert os.read(ready, 1) == b"r"
        os.close(ready)
        (self.span,) = (one for one in read_guest_ram(ROOT, self.pid).spans if one.size >= size)

    def heat(self, start: int, end: int) -> None:
        """Another range is hot from now on."""
        self._where[:16] = struct.pack("QQ", start, end)

    def observed(self) -> DomainObservation:
        facts = DomainFacts(memory=self.size)
        return DomainObservation(self.name, self.name, DomainState.RUNNING, facts, process_memory(ROOT, self.pid))

    def on(self, node: int, start: int = 0, end: int | None = None) -> int:
        """Bytes of a range that lie on a node."""
        first = self.span.start
        pages = array("Q", range(first + start, first + (self.size if end is None else end), PAGE))
        deadline = time.monotonic() + 60
        with self.mover() as mover:
            # The kernel moves pages of its own accord, too: one on its way is nowhere for a moment.
            while min(found := mover.nodes(pages)) < 0:
                assert time.monotonic() < deadline, f"pages lie nowhere: {Counter(one for one in found if one < 0)}"
                time.sleep(0.02)
        return PAGE * sum(one == node for one in found)

    def put(self, node: int, start: int = 0, end: int | None = None) -> None:
        """Move a range there, by hand."""
        with self.mover() as mover:
            mover.move(self.span.start + start, self.span.start + (self.size if end is None else end), node)

    def mover(self) -> PageMover:
        return PageMover(ROOT, process_memory(ROOT, self.pid).instance)

    def damaged(self) -> int:
        """Pages that do not hold what was written last. It stops writing for that."""
        self._where[16:24] = struct.pack("Q", 1)
        deadline = time.monotonic() + 60
        while struct.unpack("Q", self._where[24:32])[0] == 0:
            assert time.monotonic() < deadline, "the process does not answer"
            time.sleep(0.02)
        (answer,) = struct.unpack("Q", self._where[24:32])
        self._where[16:32] = bytes(16)
        return int(answer) - 1

    def end(self) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)

    def _play(self, done: int, huge: bool) -> None:
        memory = mmap.mmap(-1, self.size + 2 * MIB, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        memory.madvise(mmap.MADV_HUGEPAGE if huge else mmap.MADV_NOHUGEPAGE)
        memory.madvise(mmap.MADV_DONTFORK)  # as QEMU marks its RAM
        pages = self.size // PAGE
        for page in range(pages):
            memory[page * PAGE + 8 : page * PAGE + 16] = struct.pack("Q", page)
        _name(os.getpid(), "CPU 0/TCG")
        scratch = mmap.mmap(-1, SCRATCH * PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        os.write(done, b"r")
        count = 0
        while True:
            start, end, check, answered = struct.unpack("QQQQ", self._where[:32])
            if check:
                if not answered:
                    lost = sum(one != two for one, two in zip(memory[: self.size : PAGE], self._wrote[:], strict=True))
                    for page in range(pages):
                        lost += memory[page * PAGE + 8 : page * PAGE + 16] != struct.pack("Q", page)
                    self._where[24:32] = struct.pack("Q", lost + 1)
                time.sleep(0.01)
                continue
            count += 1
            text = bytes([count % 256]) * ((end - start) // PAGE)
            memory[start:end:PAGE] = text
            self._wrote[start // PAGE : end // PAGE] = text
            # an emulated processor keeps its translations, and their bits are not set again: this drops them
            scratch[::PAGE] = bytes(SCRATCH)
            scratch.madvise(mmap.MADV_DONTNEED)
            time.sleep(0.05)


class Heats:
    """What DAMON finds of these processes."""

    def __init__(self, players: Sequence[Player]) -> None:
        self._damon = Damon(ROOT, MemoryLedger(), "this boot", time.time, slots=len(players))
        self.asked: list[float] = []  # seconds in which nobody else could ask, of each reading
        ages = (WINDOW, 3 * WINDOW)
        self._watches = {
            one.name: DamonWatch(ROOT, self._damon, one.pid, WINDOW, regions=one.size // (2 * MIB), ages=ages)
            for one in players
        }
        for watch in self._watches.values():
            watch.ranges = watch.with_heat = True
            watch.step(time.monotonic())

    def read(self) -> None:
        for watch in self._watches.values():
            before = watch.range_reads
            while watch.range_reads == before:
                began = time.monotonic()
                due = watch.step(began)
                if watch.range_reads != before:
                    self.asked.append(time.monotonic() - began)
                time.sleep(max(0.0, due - time.monotonic()))

    def of(self, uuids: Collection[str]) -> Mapping[str, HeatMap]:
        return {name: one.heat for name, one in self._watches.items() if name in uuids and one.heat is not None}

    def end(self) -> None:
        for watch in self._watches.values():
            watch.close()
        self._damon.release()


def lever(heat: Any, **changes: Any) -> TieringLever:
    settings: dict[str, Any] = {"rate": 200 * MIB, "every": 0.0, "hot": 2 * WINDOW, "cold": 4 * WINDOW}
    settings |= {"exchange": 4 * WINDOW, **changes}
    return TieringLever(ROOT, heat, lambda total: total // 50, TieringSettings(**settings), time.monotonic, time.sleep)


def pull(one: TieringLever, plan: TieringPlan, players: Sequence[Player], *, dry_run: bool = False) -> PassResult:
    return one.reconcile(plan, [each.observed() for each in players], HOST, dry_run=dry_run)


def said(outcome: PassResult) -> dict[str, str]:
    return {"host": str(outcome.host), **{name: str(verdict) for name, verdict in outcome.verdicts.items()}}


def _name(pid: int, name: str) -> None:
    Path(f"/proc/{pid}/comm").write_text(name)


def settled(size: int, hot: int, huge: bool) -> dict[str, Any]:
    """A process whose hot end lies on the slow node and whose cold rest on the fast one, until it is the other way."""
    player = Player("one", size, (size - hot, size), huge=huge)
    player.put(FAST)
    player.put(SLOW, size - hot, size)
    before = {"hot_fast": player.on(FAST, size - hot), "cold_fast": player.on(FAST, 0, size - hot)}
    heats = Heats([player])
    most = hot + 8 * MIB
    plan = TieringPlan({"one": Share(0, most)})
    tiering, words, over, within = lever(heats.of), [], 0, False
    try:
        foretold = said(pull(lever(lambda uuids: {}), plan, [player], dry_run=True))
        untouched = player.on(FAST, size - hot)

        def until(start: int, end: int) -> float:
            nonlocal over, within
            began = time.monotonic()
            while time.monotonic() < began + 300 and not (
                within and player.on(FAST, start, end) >= 0.9 * (end - start)
            ):
                time.sleep(WINDOW)
                heats.read()
                words.append(said(pull(tiering, plan, [player]))["one"])
                beyond = player.on(FAST) - most
                within = within or beyond <= 0
                if within:
                    over = max(over, beyond)
            return time.monotonic() - began

        took = until(size - hot, size)
        after = {"hot_fast": player.on(FAST, size - hot), "cold_fast": player.on(FAST, 0, size - hot)}
        player.heat(0, hot)  # what is hot moves on
        moved_on_took = until(0, hot)
        # switched off: nothing moves any more, and nothing is put back
        moved_on, slow = player.on(FAST, 0, hot), player.on(SLOW)
        off = said(pull(tiering, TieringPlan(), [player]))["host"]
        undone = str(tiering.undo((), HOST))
        return {
            "before": before, "after": after, "took": took, "over": over, "words": words, "foretold": foretold,
            "untouched": untouched, "moved_on": moved_on, "moved_on_took": moved_on_took, "damaged": player.damaged(),
            "huge": _huge(player), "off": off, "asked": median(heats.asked), "window": WINDOW, "undone": undone,
            "slow": slow, "slow_at_the_end": player.on(SLOW),
        }  # fmt: skip
    finally:
        heats.end()
        player.end()


def exchanged(size: int) -> dict[str, Any]:
    """Two processes on a full fast node: the cold one's makes room for the hot one's, down to its minimum."""
    cold = Player("cold", size, (0, 0), huge=False)
    hot = Player("hot", size, (0, size), huge=False)
    cold.put(FAST)
    hot.put(SLOW)
    least = size // 4
    free = numa_nodes(ROOT)[FAST]
    # all that is free counts as to be kept, so nothing comes but in the place of something else
    heat = {
        "cold": HeatMap(0.0, (Heat(cold.span.start, cold.span.end, 0.0, 99.0),)),
        "hot": HeatMap(0.0, (Heat(hot.span.start, hot.span.end, 99.0, 0.0),)),
    }
    kept = 100.0 * (free.free + free.file) / free.total
    try:
        outcome = pull(
            lever(lambda uuids: heat, free_percent=kept, patience=60.0),
            TieringPlan({"cold": Share(least), "hot": Share()}),
            [cold, hot],
        )
        return {
            "said": said(outcome), "cold_fast": cold.on(FAST), "hot_fast": hot.on(FAST), "least": least,
            "damaged": cold.damaged() + hot.damaged(),
        }  # fmt: skip
    finally:
        cold.end()
        hot.end()


def killed(size: int) -> dict[str, Any]:
    """An agent that is killed in mid-move: what is left, and what its successor finds."""
    player = Player("one", size, (0, size // 2), huge=False)
    player.put(SLOW)
    heat = {"one": HeatMap(0.0, (Heat(player.span.start, player.span.start + size, 99.0, 0.0),))}
    plan = TieringPlan({"one": Share()})
    maps = _policies(player.pid)
    agent = os.fork()
    if not agent:
        with suppress(BaseException):
            pull(lever(lambda uuids: heat, rate=4 * MIB, patience=300.0), plan, [player])
        os._exit(0)
    deadline = time.monotonic() + 120
    while not 0 < player.on(FAST) < size and time.monotonic() < deadline:
        time.sleep(0.01)
    os.kill(agent, signal.SIGKILL)
    _, status = os.waitpid(agent, 0)
    left = {"fast": player.on(FAST), "slow": player.on(SLOW)}
    damaged = player.damaged()
    now = _policies(player.pid)
    # Python maps and unmaps memory of its own as it goes on.
    policies = f"{player.span.start:x}" in now and all(one == maps.get(at, "default") for at, one in now.items())
    outcome = pull(lever(lambda uuids: heat, patience=120.0), plan, [player])
    try:
        return {
            "signal": os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0, "left": left, "damaged": damaged,
            "policies": policies, "said": said(outcome), "fast": player.on(FAST), "after": player.damaged(),
        }  # fmt: skip
    finally:
        player.end()


def refusals(size: int) -> dict[str, Any]:
    """Processes and nodes that go away, are full, or are not to be used; and what is said of each."""
    player = Player("one", size, (0, size), huge=False)
    player.put(SLOW)
    heat = {"one": HeatMap(0.0, (Heat(player.span.start, player.span.start + size, 99.0, 0.0),))}
    plan = TieringPlan({"one": Share()})
    found: dict[str, Any] = {}
    with player.mover() as mover:
        found["no_node"] = mover.move(player.span.start, player.span.start + 4 * MIB, 7).why()
        found["still_there"] = player.on(SLOW) == size
    # a cpuset that leaves it the slow node only
    group = Path("/sys/fs/cgroup/bound")
    with suppress(OSError):
        Path("/sys/fs/cgroup/cgroup.subtree_control").write_text("+cpuset")
    group.mkdir(exist_ok=True)
    (group / "cpuset.mems").write_text(str(SLOW))
    (group / "cgroup.procs").write_text(str(player.pid))
    found["bound"] = said(pull(lever(lambda uuids: heat), plan, [player]))["one"]
    with player.mover() as mover:
        found["beyond_its_cpuset"] = mover.move(player.span.start, player.span.start + 4 * MIB, FAST).why()
    (group / "cpuset.mems").write_text(f"{FAST}-{SLOW}")
    found["widened"] = sorted(memory_may_lie_on(ROOT, player.pid))
    # the fast nodes have less than the VM is to have at least
    found["limits"] = said(pull(lever(lambda uuids: heat), TieringPlan({"one": Share(1 << 40)}), [player]))["one"]
    # it ends in mid-move
    tiering = lever(lambda uuids: heat, rate=4 * MIB, patience=60.0)
    seen = player.observed()
    ender = os.fork()
    if not ender:
        with suppress(BaseException):
            while player.on(FAST) == 0:
                time.sleep(0.01)
            os.kill(player.pid, signal.SIGKILL)
        os._exit(0)
    outcome = tiering.reconcile(plan, [seen], HOST, dry_run=False)
    os.waitpid(ender, 0)
    found["ended"] = said(outcome)["one"]
    found["gone"] = said(tiering.reconcile(plan, [seen], HOST, dry_run=False))["one"]
    player.end()
    return found


def gathered(size: int, other: int) -> dict[str, Any]:
    """A process that lies half on another fast node, which its only CPU may or may not be on."""
    player = Player("one", size, (0, size), huge=False)
    player.put(FAST)
    player.put(other, size // 2, size)
    plan = TieringPlan({"one": Share()})
    try:
        os.sched_setaffinity(player.pid, _cpus(other))
        bound_away = said(pull(lever(lambda uuids: {}, patience=120.0), plan, [player]))["one"]
        away = player.on(other)
        os.sched_setaffinity(player.pid, _cpus(FAST) | _cpus(other))
        player.put(FAST, 0, size // 8 * 5)
        pull(lever(lambda uuids: {}, patience=120.0), plan, [player])
        return {"said": bound_away, "away": away, "home": player.on(FAST), "damaged": player.damaged()}
    finally:
        player.end()


def _cpus(node: int) -> set[int]:
    return {cpu for cpu in range(os.cpu_count() or 1) if (NODES / f"node{node}" / f"cpu{cpu}").exists()}


def _policies(pid: int) -> dict[str, str]:
    """The memory policy of each mapping, by the address where it begins."""
    lines = Path(f"/proc/{pid}/numa_maps").read_text().splitlines()
    return {at.lstrip("0"): policy for at, policy, *_ in (line.split() for line in lines)}


def _huge(player: Player) -> int:
    """Bytes in huge pages of its memory; Python's own may have some, too."""
    inside, found = False, 0
    for line in (Path("/proc") / str(player.pid) / "smaps").read_text().splitlines():
        if mapping := re.match(r"([0-9a-f]+)-([0-9a-f]+) ", line):
            inside = int(mapping[1], 16) < player.span.end and int(mapping[2], 16) > player.span.start
        elif inside and line.startswith("AnonHugePages:"):
            found += int(line.split()[1]) << 10
    return found
