"""Runs inside a virtual host of a fast and a slow node: processes that stand for VMs, and who lays their memory."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

from lab.memory_ledger import MemoryLedger
from memhint.kernel.damon import Damon
from memhint.kernel.damon_watch import DamonWatch
from memhint.kernel.numa import numa_nodes
from memhint.kernel.process import process_memory
from memhint.kernel.root import KernelRoot
from memhint.kernel.vmstat import read_vmstat
from memhint.levers.tiering import TieringLever, TieringSettings
from memhint.objects.active import ActiveSource
from memhint.objects.domain import DomainFacts, DomainObservation, DomainState
from memhint.objects.host import HostMemory, HostObservation, Scope
from memhint.planner.tiering import Share, TieringPlan

PROGRAM = "/inside/tiering"
MIB = 1 << 20
PAGE = 4096
FAST, SLOW = 0, 1
SET_MEMPOLICY, PREFERRED = 238, 1  # x86-64
KERNEL = 3  # MiB of the fast node that the kernel comes to use meanwhile, for page tables and what DAMON says
ROOT = KernelRoot()
HOST = HostObservation(0.0, HostMemory(Scope.MACHINE, 0, 0, 0, 0), PAGE)
OFF = (Path("/proc/sys/kernel/numa_balancing"), Path("/sys/kernel/mm/numa/demotion_enabled"))
BEGIN = 3.0  # seconds from the start of a VM until it plays: it has touched its memory by then
# What the kernel keeps free on its own is a twentieth of so small a machine, and a thousandth of a host's memory; what
# a processor keeps back of what was freed is an eighth. With these it is little here, too.
SMALL = {"min_free_kbytes": 4096, "percpu_pagelist_high_fraction": 1000}
PLACES = {"": 0, "interleave": 1, "oracle": 2}


def _aside() -> None:
    """What this process and its children have for themselves lies on the slow node: the fast one is for the VMs."""
    mask = ctypes.c_ulong(1 << SLOW)
    if ctypes.CDLL(None, use_errno=True).syscall(SET_MEMPOLICY, PREFERRED, ctypes.byref(mask), 8 * ctypes.sizeof(mask)):
        raise OSError(ctypes.get_errno(), "set_mempolicy")


def run(
    arm: str,
    vms: Mapping[str, Sequence[tuple[float, int]]],
    mib: int,
    fast_mib: int,
    facts: Mapping[str, int],
    row: float,
    lever: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """VMs play all their phases, and somebody lays their memory.

    :param arm: where their memory is laid at the beginning: one of PLACES
    :param vms: by name, the phases: seconds, and MiB that are hot
    :param mib: of each VM
    :param fast_mib: that they find on the fast node; 0: all of it
    :param facts: of the workload, in the program's own words
    :param row: seconds from one row to the next
    :param lever: the settings of an agent, by group and option; None: there is none
    """
    os.chmod(PROGRAM, 0o755)
    _aside()
    for name, value in SMALL.items():
        Path("/proc/sys/vm", name).write_text(str(value))
    for file in OFF:
        if file.exists():
            file.write_text("0")
    with ExitStack() as opened:
        if fast_mib:
            opened.enter_context(_filled(fast_mib, lever))
        begin = time.monotonic() + BEGIN
        words = [f"begin={int(begin * 1e9)}", f"row={int(row * 1000)}", f"place={PLACES[arm]}"]
        words += [f"{name}={value}" for name, value in facts.items()]
        pids = {}
        for name, phases in vms.items():
            told = [f"{int(1000 * seconds)}:{hot}" for seconds, hot in phases]
            pids[name] = opened.enter_context(_started("play", f"/tmp/{name}", str(mib), *words, *told)).pid
        end = begin + max(sum(seconds for seconds, _ in phases) for phases in vms.values())
        agent = opened.enter_context(_agent(lever)) if lever is not None else None
        looks: list[tuple[float, float, int]] = []
        words_said: list[tuple[float, dict[str, str]]] = []
        looking = 0.0  # CPU seconds: they are not the agent's
        while (now := time.monotonic()) < end - 1.0:
            if agent is not None:
                said = agent.cycle(pids)
                if not words_said or words_said[-1][1] != said:
                    words_said.append((now - begin, said))
            spent = time.thread_time()
            moved = read_vmstat(ROOT).number("pgmigrate_success") * PAGE
            cpu = time.process_time() + _kdamonds() - looking
            looks.append((time.monotonic() - begin, cpu, moved))
            looking += time.thread_time() - spent
            period = lever["DEFAULT"]["period"] if lever is not None else 10.0
            time.sleep(max(0.0, min(end - 1.0, now + period) - time.monotonic()))
        while time.monotonic() < end + 0.5:
            time.sleep(0.1)
        rows = {name: _rows(name) for name in vms}
    return {"rows": rows, "looks": looks, "said": words_said, "gaps": agent.gaps() if agent is not None else []}


class _Agent:
    """The parts of memhint's agent that tiering takes: its reader of active memory, and its lever, in its cycles."""

    def __init__(self, settings: Mapping[str, Any], reads: Any) -> None:
        options, reserve = settings["tiering"], settings["host"]["node_reserve_percent"]
        self._reads = reads
        self._lever = TieringLever(
            ROOT,
            reads.heat,
            lambda total: int(total * reserve / 100),
            TieringSettings(**options),
            time.monotonic,
            time.sleep,
        )

    def cycle(self, pids: Mapping[str, int]) -> dict[str, str]:
        """Look, and lay: one after the other, where the agent does the latter on a thread of its own."""
        seen = {name: process_memory(ROOT, pid) for name, pid in pids.items()}
        self._reads.want(seen)
        self._names = tuple(seen)
        vms = [
            DomainObservation(
                name, name, DomainState.RUNNING, DomainFacts(memory=one.rss), one, active=self._reads.newest(name)[0]
            )
            for name, one in seen.items()
        ]
        plan = TieringPlan({name: Share() for name in seen})
        outcome = self._lever.reconcile(plan, vms, HOST, dry_run=False)
        return {"host": str(outcome.host), **{name: str(verdict) for name, verdict in outcome.verdicts.items()}}

    def gaps(self) -> list[str]:
        """What is not known of which VM in the end."""
        return [f"{name}: {gap}" for name in self._names if (gap := self._reads.newest(name)[1]) is not None]


@contextmanager
def _agent(settings: Mapping[str, Any]) -> Iterator[_Agent]:
    options = settings["active"]
    damon = Damon(ROOT, MemoryLedger(), "this boot", time.time, slots=8)

    def watch(pid: int) -> DamonWatch:
        return DamonWatch(ROOT, damon, pid, options["interval"], regions=options["regions"])

    module = _active_reads()
    reads = module.ActiveReads(
        {ActiveSource.DAMON: watch}, options["cpu_percent"], release=damon.release, apart=module.APART
    )
    reads.start()
    try:
        yield _Agent(settings, reads)
    finally:
        reads.close(60.0)


def _active_reads() -> Any:
    """The agent's reader, whose file is beside this one: what it takes of the store is an error's name."""
    if "memhint.store" not in sys.modules:
        store, errors = ModuleType("memhint.store"), ModuleType("memhint.store.errors")
        errors.StoreError = type("StoreError", (Exception,), {})  # type: ignore[attr-defined]
        sys.modules.update({"memhint.store": store, "memhint.store.errors": errors})
    import active_reads  # type: ignore[import-not-found]

    return active_reads


@contextmanager
def _filled(left: int, settings: Mapping[str, Any] | None) -> Iterator[None]:
    """Nobody else finds more than so many MiB on the fast node, beyond what has to stay free there."""
    (node,) = (one for one in numa_nodes(ROOT) if one.node == FAST)
    if settings is not None:
        percent = max(settings["tiering"]["free_percent"], settings["host"]["node_reserve_percent"])
        kept = int(node.total * percent / 100)
    else:
        kept = _high_watermark() * PAGE
    size = (node.free + node.file - kept) // MIB - left - KERNEL
    if size <= 0:
        raise RuntimeError(f"the fast node has {node.free // MIB} MiB free, and {left} MiB are wanted")
    with _started("fill", str(size)):
        yield


def _high_watermark() -> int:
    """Pages of all zones of the fast node, as the kernel keeps them free."""
    total, here = 0, False
    for line in Path("/proc/zoneinfo").read_text().splitlines():
        if line.startswith("Node "):
            here = line.startswith(f"Node {FAST},")
        words = line.split()
        if here and len(words) == 2 and words[0] == "high":
            total += int(words[1])
    return total


@contextmanager
def _started(*words: str) -> Iterator[SimpleNamespace]:
    """A process of the program that has said that it is ready, and is ended in the end."""
    process = subprocess.Popen([PROGRAM, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        assert process.stdout is not None
        assert process.stderr is not None
        if not process.stdout.readline():
            raise RuntimeError(f"{words}: {process.stderr.read().decode()}")
        yield SimpleNamespace(pid=process.pid)
        if process.poll():
            raise RuntimeError(f"{words}: {process.stderr.read().decode()}")
    finally:
        process.kill()
        process.communicate()


def _rows(name: str) -> list[list[int]]:
    return [[int(word) for word in line.split()] for line in Path(f"/tmp/{name}.rows").read_text().splitlines()]


def _kdamonds() -> float:
    """CPU seconds of all kdamonds so far."""
    total = 0
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                if (folder / "comm").read_text().startswith("kdamond"):
                    total += int((folder / "schedstat").read_text().split()[0])
            except OSError:
                continue  # it has just ended
    return total / 1e9
