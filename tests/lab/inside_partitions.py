"""Runs inside a virtual host whose KSM has partitions: QEMUs of two projects, all with equal memory, and the lever.

No guest runs in them: what is in their memory is written there from outside. So the lever talks to real monitors, and
QEMU's own blocks are there to be merged as well.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from array import array
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from io import FileIO
from pathlib import Path
from typing import Any

from memhint.kernel.guest_ram import read_guest_ram
from memhint.kernel.host import read_memory
from memhint.kernel.ksm import read_ksm
from memhint.kernel.ksm_partition import read_partition
from memhint.kernel.process import process_memory
from memhint.kernel.root import KernelRoot
from memhint.levers.dedup import DedupLever, DedupSettings
from memhint.levers.dedup_partition import PARTITION_KNOB
from memhint.levers.lever import PassResult
from memhint.objects.domain import DomainFacts, DomainObservation, DomainState
from memhint.objects.host import HostObservation
from memhint.objects.ownership import Mark
from memhint.objects.policy import Origin, effective
from memhint.planner.dedup import DedupPlan, plan_dedup
from memhint.planner.dedup_partitions import apart

MIB = 1 << 20
PAGE = 4096
SIZE = 32 * MIB  # of each VM's memory
USED = 6 * MIB  # of it, equal in all of them
ROOT = KernelRoot()
KSM = Path("/sys/kernel/mm/ksm")
OBJECT = "/objects/ram"
PROJECTS = {"a": "p1", "b": "p1", "c": "p2", "d": "p2", "e": "p3"}  # nobody asked for e
PATIENCE = 240.0  # seconds: KSM's thread is nice, and a busy machine leaves it little
ZERO_PAGE = 1 << 24  # of /proc/kpageflags
FAST: Mapping[str, Any] = {
    "allow_monitor_commands": True, "advisor": "none", "target_scan_time": None, "max_cpu": None,
    "pages_to_scan": 50_000, "sleep_millisecs": 1,
}  # fmt: skip


class Ledger:
    """Marks in a file, as an agent that was killed leaves them."""

    def __init__(self, path: Path, killed_at: int | None = None) -> None:
        """:param killed_at: the mark of a partition after which this process is killed, before what it is of is done"""
        self._path, self._killed_at = path, killed_at
        found = json.loads(path.read_text()) if path.exists() else []
        self._marks = {(one["subject"], one["knob"]): Mark(**one) for one in found}

    def put(self, mark: Mark) -> None:
        older = self.get(mark.subject, mark.knob)
        if older is not None and older.instance == mark.instance:
            mark = Mark(mark.subject, mark.knob, older.before, mark.after, mark.instance, mark.at)
        self._marks[(mark.subject, mark.knob)] = mark
        self._write()
        if sum(one.knob == PARTITION_KNOB for one in self.all()) == self._killed_at:
            os.kill(os.getpid(), signal.SIGKILL)

    def get(self, subject: str, knob: str) -> Mark | None:
        return self._marks.get((subject, knob))

    def remove(self, subject: str, knob: str) -> None:
        self._marks.pop((subject, knob), None)
        self._write()

    def of(self, subject: str) -> tuple[Mark, ...]:
        return tuple(mark for mark in self._marks.values() if mark.subject == subject)

    def all(self) -> tuple[Mark, ...]:
        return tuple(self._marks.values())

    def _write(self) -> None:
        self._path.write_text(json.dumps([asdict(mark) for mark in self.all()]))


class Vm:
    """A QEMU that does not run, and its monitor."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._qemu = subprocess.Popen(
            ["qemu-system-x86_64", "-S", "-accel", "tcg,tb-size=4", "-nodefaults", "-vga", "none", "-display", "none",
             "-object", f"memory-backend-ram,id=ram,size={SIZE}", "-M", "pc,memory-backend=ram", "-m", str(SIZE // MIB),
             "-bios", "/inside/tiny_guest.bin", "-qmp", "stdio"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0,
        )  # fmt: skip
        self.pid = self._qemu.pid
        self._line()  # the greeting
        self._execute("qmp_capabilities")
        (self._span,) = (one for one in read_guest_ram(ROOT, self.pid).spans if one.size == SIZE)

    def fill(self, size: int, zero: bool = False) -> None:
        """Write memory that is the same in every VM: no two pages alike, or all of them empty."""
        with Path(f"/proc/{self.pid}/mem").open("r+b", buffering=0) as memory:
            memory.seek(self._span.start)
            for page in range(1, size // PAGE + 1):
                memory.write(bytes(PAGE) if zero else page.to_bytes(8, "little") * (PAGE // 8))

    def frames(self) -> list[int]:
        """The page frames behind the guest's memory in use, 0 for none."""
        return _frames(self.pid, self._span.start, self._span.start + USED)

    def all_frames(self) -> set[int]:
        """All frames behind memory of its own."""
        found: set[int] = set()
        for line in Path(f"/proc/{self.pid}/maps").read_text().splitlines():
            words = line.split()
            if words[1].startswith("rw-p") and words[4] == "0":
                start, _, end = words[0].partition("-")
                found.update(_frames(self.pid, int(start, 16), int(end, 16)))
        return found - {0}

    def observed(self) -> DomainObservation:
        facts = DomainFacts(memory=SIZE, project=PROJECTS[self.name])
        return DomainObservation(self.name, self.name, DomainState.RUNNING, facts, process_memory(ROOT, self.pid))

    def end(self) -> None:
        self._qemu.kill()
        self._qemu.wait()

    # what the lever asks of a monitor

    def memory_backends(self) -> list[str]:
        return [OBJECT]

    def get(self, path: str, name: str) -> object:
        return self._execute("qom-get", path=path, property=name)

    def set(self, path: str, name: str, value: object) -> None:
        self._execute("qom-set", path=path, property=name, value=value)

    def marks_ranges(self) -> bool:
        return False

    def memory_blocks(self) -> Mapping[str, Any]:
        return {}

    def merge_ranges(self, path: str, merge: bool, ranges: Sequence[tuple[int, int]]) -> None:
        raise AssertionError("this QEMU cannot")

    def _execute(self, command: str, **arguments: object) -> object:
        assert self._qemu.stdin is not None
        self._qemu.stdin.write(json.dumps({"execute": command, "arguments": arguments}).encode() + b"\n")
        while True:
            answer = json.loads(self._line())
            if "error" in answer:
                raise RuntimeError(f"{command}: {answer['error']}")
            if "return" in answer:
                return answer["return"]

    def _line(self) -> bytes:
        assert self._qemu.stdout is not None
        return self._qemu.stdout.readline()


def _frames(pid: int, start: int, end: int) -> list[int]:
    with Path(f"/proc/{pid}/pagemap").open("rb", buffering=0) as table:
        table.seek(start // PAGE * 8)
        words = array("Q", table.read((end - start) // PAGE * 8))
    return [one & (1 << 55) - 1 if one >> 63 else 0 for one in words]


VMS: dict[str, Vm] = {}
MARKS = Path("/tmp/marks")


def start() -> dict[str, str]:
    """The VMs, and KSM as it is before memhint comes: at rest, whatever was done with it before."""
    for run in ("2", "0"):
        (KSM / "run").write_text(run)
    for name in PROJECTS:
        VMS[name] = Vm(name)
        VMS[name].fill(USED)
    return knobs()


def end() -> None:
    for one in VMS.values():
        one.end()
    VMS.clear()


def knobs() -> dict[str, str]:
    """What memhint may write of KSM."""
    names = (
        "run",
        "use_zero_pages",
        "zero_pages_only",
        "smart_scan",
        "advisor_mode",
        "pages_to_scan",
        "sleep_millisecs",
    )
    return {name: (KSM / name).read_text().strip() for name in names}


def state() -> dict[str, Any]:
    """What is left of memhint's doing."""
    return {
        "knobs": knobs(),
        "partitions": {name: read_partition(ROOT, one.pid) for name, one in VMS.items()},
        "merge": {name: one.get(OBJECT, "merge") for name, one in VMS.items()},
        "marks": len(Ledger(MARKS).all()),
    }


def lever(killed_at: int | None = None, **settings: Any) -> DedupLever:
    """An agent's, that begins now."""
    return DedupLever(
        ROOT,
        Ledger(MARKS, killed_at),
        VMS.__getitem__,
        DedupSettings(**{**FAST, **settings}),
        "this boot",
        lambda host: 0,
        lambda: read_memory(ROOT).available,
        time.time,
    )


def host() -> HostObservation:
    return HostObservation(time.time(), read_memory(ROOT, None), PAGE, ksm=read_ksm(ROOT))


def plan(seen: HostObservation, members: Collection[str], **settings: bool) -> DedupPlan:
    """The planner's own."""
    domains = [one.observed() for one in VMS.values()]
    asks = {name: effective({Origin.OPERATOR: {"dedup": "on" if name in members else "off"}}) for name in VMS}
    wanted = {"empty_only": False, "empty_across": False, **settings}
    return plan_dedup(domains, asks, None, False, apart=apart(seen.ksm, **wanted))


def reconcile(one: DedupLever, members: Collection[str] = "abcd", **settings: bool) -> PassResult:
    seen = host()
    domains = [each.observed() for each in VMS.values()]
    return one.reconcile(plan(seen, members, **settings), domains, seen, dry_run=False)


def said(outcome: PassResult) -> dict[str, str]:
    return {"host": str(outcome.host), **{name: str(verdict) for name, verdict in outcome.verdicts.items()}}


def alike(one: str, other: str) -> float:
    """The part of the memory in use for which the same frames stand in both."""
    pairs = list(zip(VMS[one].frames(), VMS[other].frames(), strict=True))
    return sum(first == second != 0 for first, second in pairs) / len(pairs)


def shared_across() -> int:
    """Frames that are behind memory of VMs of two projects; zero pages, small and huge, are not among them."""
    of: dict[str, set[int]] = {}
    for name, one in VMS.items():
        of.setdefault(PROJECTS[name], set()).update(one.all_frames())
    found = list(of.values())
    both: set[int] = set().union(*(found[i] & found[j] for i in range(len(found)) for j in range(i)))
    with Path("/proc/kpageflags").open("rb", buffering=0) as table:
        return sum(not _flags(table, frame) & ZERO_PAGE for frame in both)


def _flags(table: FileIO, frame: int) -> int:
    table.seek(frame * 8)
    return int.from_bytes(table.read(8), "little")


def merged(pairs: Sequence[tuple[str, str]]) -> tuple[bool, int, float]:
    """Wait until these pairs have merged: whether they did, the most that was shared across, and seconds."""
    began, most = time.monotonic(), 0
    while time.monotonic() < began + PATIENCE:
        most = max(most, shared_across())
        if all(alike(one, other) > 0.9 for one, other in pairs):
            return True, most, time.monotonic() - began
        time.sleep(0.2)
    return False, most, time.monotonic() - began


def scanned(times: int) -> None:
    """Wait until KSM has gone over everything so often."""
    until, began = read_ksm(ROOT).full_scans + times, time.monotonic()
    while read_ksm(ROOT).full_scans < until:
        assert time.monotonic() < began + PATIENCE, "KSM does not scan"
        time.sleep(0.1)


def at_once() -> dict[str, Any]:
    """Both projects merge at the same time, nobody across; an agent that is killed on the way, and its successor."""
    agent = os.fork()
    if not agent:
        with suppress(BaseException):
            reconcile(lever(killed_at=2))
        os._exit(0)
    _, status = os.waitpid(agent, 0)
    left = state()
    first = lever()
    words = said(reconcile(first))
    placed = state()
    done, across, took = merged([("a", "b"), ("c", "d")])
    again = said(reconcile(first))
    outside = alike("a", "e")
    pages = saved()
    successor = lever()
    after, found = said(reconcile(successor)), state()
    # one leaves, and the others go on
    reconcile(successor, "abc")
    apart_again = alike("c", "d")
    undone = str(successor.undo([one.observed() for one in VMS.values()], host()))
    return {
        "signal": os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0, "left": left, "said": words, "placed": placed,
        "merged": done, "across": across, "took": took, "again": again, "outside": outside, "saved": pages,
        "after": after, "found": found, "apart_again": apart_again, "undone": undone, "state": state(),
    }  # fmt: skip


def one_at_a_time() -> dict[str, Any]:
    """What memhint does where KSM has no partitions: one project merges, and the others wait."""
    agent, seen = lever(), host()
    stock = HostObservation(seen.at, seen.memory, PAGE, ksm=replace(seen.ksm, partitions=False) if seen.ksm else None)
    domains = [one.observed() for one in VMS.values()]
    words = said(agent.reconcile(plan(stock, "abcd"), domains, stock, dry_run=False))
    done, across, took = merged([("a", "b")])
    pages = saved()
    undone = str(agent.undo([one.observed() for one in VMS.values()], host()))
    left = state()
    (KSM / "run").write_text("2")  # QEMU's own blocks have merged, and nobody else separates them
    (KSM / "run").write_text("0")
    return {
        "said": words, "merged": done, "across": across, "took": took, "saved": pages, "undone": undone, "left": left,
    }  # fmt: skip


def without() -> int:
    """The frames that they share across projects where nobody keeps them apart: what the check above must see."""
    for name, value in (("pages_to_scan", 50_000), ("sleep_millisecs", 1), ("run", 1)):
        (KSM / name).write_text(str(value))
    try:
        merged([("a", "c"), ("b", "d")])
        return shared_across()
    finally:
        (KSM / "run").write_text("2")


def busy() -> dict[str, Any]:
    """VMs that KSM has merged before memhint comes, with blocks of QEMU's own; and one that somebody else has put."""
    (KSM / "run").write_text("1")
    done = merged([("a", "c"), ("b", "d")])[0]
    scanned(3)  # QEMU's own blocks as well
    (KSM / "run").write_text("0")
    agent = lever()
    words = said(reconcile(agent))
    across = shared_across()
    undone = str(agent.undo([one.observed() for one in VMS.values()], host()))
    (KSM / "run").write_text("2")
    Path(f"/proc/{VMS['d'].pid}/ksm_partition").write_text("7")
    theirs = said(reconcile(agent))
    kept_out = {name: one.get(OBJECT, "merge") for name, one in VMS.items()}
    agent.undo([one.observed() for one in VMS.values()], host())
    left = state()
    Path(f"/proc/{VMS['d'].pid}/ksm_partition").write_text("0")
    return {
        "merged": done, "said": words, "across": across, "undone": undone, "theirs": theirs, "kept_out": kept_out,
        "left": left,
    }  # fmt: skip


def empty(size: int) -> dict[str, Any]:
    """Empty pages only: the first of two projects at first, then both, where that is allowed."""
    for one in VMS.values():
        one.fill(size, zero=True)
    before = knobs()
    agent = lever(empty_only=True)
    alone = said(reconcile(agent, empty_only=True))
    began = time.monotonic()
    while time.monotonic() < began + PATIENCE and min(back("a"), back("b")) < 0.9 * size:
        time.sleep(0.1)
    first = {name: back(name) for name in VMS}
    during, sharing = knobs(), read_ksm(ROOT).pages_sharing
    several = lever(empty_only=True, empty_across=True)
    both = said(reconcile(several, empty_only=True, empty_across=True))
    while time.monotonic() < began + PATIENCE and min(back("c"), back("d")) < 0.9 * size:
        time.sleep(0.1)
    second = {name: back(name) for name in VMS}
    undone = str(several.undo([one.observed() for one in VMS.values()], host()))
    return {
        "alone": alone, "first": first, "during": during, "sharing": sharing, "both": both, "second": second,
        "undone": undone, "before": before, "state": state(),
    }  # fmt: skip


def saved() -> int:
    """Pages of the guests' memory in use that stand in a frame together with others of it."""
    frames = [frame for one in VMS.values() for frame in one.frames()]
    return len(frames) - len(set(frames))


def back(name: str) -> int:
    """Bytes of a guest's memory in use that the zero page stands for. KSM counts those in QEMU's own blocks as well."""
    with Path("/proc/kpageflags").open("rb", buffering=0) as table:
        found = PAGE * sum(bool(_flags(table, frame) & ZERO_PAGE) for frame in VMS[name].frames())
    counted = process_memory(ROOT, VMS[name].pid).ksm_zero or 0
    assert counted >= found, f"{found} bytes are the zero page, and KSM counts {counted}"
    return found
