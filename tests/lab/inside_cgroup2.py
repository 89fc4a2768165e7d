"""What test_cgroup2 has done inside the virtual host: libvirt's cgroup tree, processes as VMs, and the levers' pulls.

Only the standard library is there. Every function that the test calls returns plain figures, in bytes; the test judges.
"""

from __future__ import annotations

import mmap
import os
import random
import signal
import struct
import subprocess
import threading
import time
import zlib
from array import array
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from lab.memory_ledger import MemoryLedger
from memhint.kernel.clearings import Clearings
from memhint.kernel.guest_advice import GuestAdvice
from memhint.kernel.guest_ram import GuestRam, read_guest_ram
from memhint.kernel.process import process_memory
from memhint.kernel.psi import read_pressure
from memhint.kernel.referenced import ReferencedWatch
from memhint.kernel.root import KernelRoot
from memhint.kernel.swap_reads import SwapQueue, SwapReads
from memhint.levers.qos import QosLever
from memhint.levers.qos_wish import QosTarget
from memhint.levers.read_ahead import ReadAheadSettings, read_ahead
from memhint.levers.swap_out import SwapOutLever, SwapOutOutcome, SwapOutSettings, SwapOutTarget
from memhint.levers.wake_watch import WakeWatch
from memhint.objects.domain import DomainFacts, DomainObservation, DomainState
from memhint.objects.policy import Origin, QosClass, effective
from memhint.objects.verdict import Answer
from memhint.planner.cold import Cold, ColdSettings, cold_wishes, next_cold
from memhint.planner.relief.candidate import Candidate

MIB = 1 << 20
PAGE = 4096
ROOT = KernelRoot()
TOP = Path("/sys/fs/cgroup")
MACHINE = TOP / "machine.slice"
SYSTEM = TOP / "system.slice"
PLAIN, CRYPT = "/dev/vda", "/dev/vdb"
PATIENCE = 180.0
REST = 0.2  # seconds between two rounds of a VM that uses its memory
SCRATCH = 64  # pages
LRU_GEN = Path("/sys/kernel/mm/lru_gen/enabled")
CLUSTER = Path("/proc/sys/vm/page-cluster")


class Process:
    """A child that holds memory; ``hot``: it touches all of it again and again, ``growth``: and takes more.

    ``used``: how many of its pages it touches, ten times a second, ``spread`` over all of it or in one piece.
    """

    def __init__(
        self,
        cgroup: Path,
        size: int,
        hot: bool = False,
        growth: int = 0,
        used: int = 0,
        spread: bool = False,
        sleeper: bool = False,
        shuffled: bool = False,
    ) -> None:
        self.cgroup = cgroup
        wake, self._wake = os.pipe()
        self._woken, tell_woken = os.pipe()
        self.used = _places(size, used, spread)
        ready, tell = os.pipe()
        go, let = os.pipe()
        self.pid = os.fork()
        if not self.pid:
            try:
                os.read(go, 1)
                held = [_filled(size)]
                if used:
                    held[0].madvise(mmap.MADV_NOHUGEPAGE)
                os.write(tell, b"r")
                while used:
                    for place in self.used:
                        held[0][place] = 1
                    _empty_tlb()
                    time.sleep(0.1)
                places, pages = list(range(0, size, PAGE)), memoryview(held[0])
                if shuffled:
                    random.Random(1).shuffle(places)
                while sleeper:
                    (work,) = os.read(wake, 1)
                    start = time.monotonic()
                    for place in places:
                        held[0][place] = 1
                        for _ in range(work):
                            zlib.crc32(pages[place : place + PAGE])
                    os.write(tell_woken, struct.pack("d", time.monotonic() - start))
                while hot:
                    for memory in held:
                        memory[::PAGE] = bytes(len(memory) // PAGE)
                    if growth:
                        held.append(_filled(growth))
                    else:
                        _empty_tlb()
                        time.sleep(REST)  # of one that never rests the kernel finds every page in use, and takes none
                signal.pause()
            finally:
                os._exit(1)
        (cgroup / "cgroup.procs").write_text(str(self.pid))
        os.write(let, b"g")
        for end in (tell, wake, tell_woken):
            os.close(end)
        ended = os.read(ready, 1) != b"r"
        for end in (ready, go, let):
            os.close(end)
        if ended:
            raise RuntimeError(f"a process of {size} bytes ended in {cgroup}")

    def wake(self, work: int = 0) -> float:
        """Have it write to each page of its memory, and read all of it so often; the seconds that it took."""
        os.write(self._wake, bytes([work]))
        return float(struct.unpack("d", os.read(self._woken, 8))[0])

    def faults(self) -> int:
        """How often it had to wait for a page from a disk, all in all."""
        return int(Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[9])

    def used_in_swap(self) -> int:
        """How many of the pages that it uses are in swap now."""
        (span,) = (one for one in read_guest_ram(ROOT, self.pid).spans if one.size > max(self.used))
        with open(f"/proc/{self.pid}/pagemap", "rb", buffering=0) as pagemap:
            entries = array("Q", os.pread(pagemap.fileno(), span.size // PAGE * 8, span.start // PAGE * 8))
        return sum(entries[place // PAGE] >> 62 & 1 for place in self.used)

    def end(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)


class Vm(Process):
    """A process in a scope with libvirt's nesting, its threads in a threaded cgroup as QEMU's are."""

    def __init__(self, name: str, size: int, **does: Any) -> None:
        """:param does: as of a process"""
        self._make_cgroups(name, size)
        super().__init__(self.cgroup, size, **does)
        (self.cgroup / "emulator" / "cgroup.threads").write_text(str(self.pid))

    def _make_cgroups(self, name: str, size: int) -> None:
        self.name, self.size = name, size
        self.scope = MACHINE / f"machine-qemu\\x2d1\\x2d{name}.scope"
        self.cgroup = self.scope / "libvirt"
        self.cgroup.mkdir(parents=True)
        (self.scope / "cgroup.subtree_control").write_text("+memory")
        for threads in ("emulator", "vcpu0"):
            (self.cgroup / threads).mkdir()
            (self.cgroup / threads / "cgroup.type").write_text("threaded")

    def observed(self) -> DomainObservation:
        facts = DomainFacts(memory=self.size)
        return DomainObservation(self.name, self.name, DomainState.RUNNING, facts, process_memory(ROOT, self.pid))

    def swapped(self) -> int:
        return int((self.cgroup / "memory.swap.current").read_text())

    def end(self) -> None:
        super().end()
        for path in (self.cgroup / "emulator", self.cgroup / "vcpu0", self.cgroup, self.scope):
            _remove(path)


class QemuVm(Vm):
    """A real QEMU that emulates a guest (tiny_guest.S), which touches all of its memory whenever it gets a byte."""

    bios = "tiny_guest.bin"

    def __init__(self, name: str, size: int) -> None:
        self._make_cgroups(name, size)
        self.qemu = subprocess.Popen(
            ["qemu-system-x86_64", "-accel", "tcg,tb-size=4", "-M", "pc", "-nodefaults", "-vga", "none",
             "-display", "none", "-m", str(size // MIB), "-bios", f"/inside/{self.bios}", "-serial", "stdio"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, bufsize=0,
            preexec_fn=lambda: (self.cgroup / "cgroup.procs").write_text("0"),
        )  # fmt: skip
        self.pid = self.qemu.pid
        self._touched()
        for thread in Path(f"/proc/{self.pid}/task").iterdir():
            with suppress(FileNotFoundError, ProcessLookupError):  # QEMU's helpers come and go
                virtual = (thread / "comm").read_text().startswith("CPU ")
                (self.cgroup / ("vcpu0" if virtual else "emulator") / "cgroup.threads").write_text(thread.name)

    def touch(self) -> None:
        """Let the guest write to every page of its memory, and wait until it has."""
        assert self.qemu.stdin
        self.qemu.stdin.write(b"t")
        self._touched()

    def _touched(self) -> None:
        assert self.qemu.stdout
        if self.qemu.stdout.read(1) != b"r":
            raise RuntimeError("the guest in QEMU ended")

    def end(self) -> None:
        self.qemu.kill()
        self.qemu.wait()
        for path in (self.cgroup / "emulator", self.cgroup / "vcpu0", self.cgroup, self.scope):
            _remove(path)


class Host:
    """Some VMs and the lever over them; everything ends with it."""

    def __init__(self, **vms: dict[str, Any]) -> None:
        self.vms = {
            name: QemuVm(name, given["size"]) if given.get("qemu") else Vm(name, **given) for name, given in vms.items()
        }
        self.hog: Process | None = None
        self.ledger = MemoryLedger()
        self.lever = QosLever(ROOT, self.ledger, "boot", time.time)

    def __enter__(self) -> Host:
        return self

    def __exit__(self, *_: object) -> None:
        for one in (*self.vms.values(), *([self.hog] if self.hog else [])):
            one.end()
        for level in (MACHINE, SYSTEM):
            (level / "memory.min").write_text("0")

    def bring(self, **classes: str) -> dict[str, Any]:
        """Every named VM to its class; verdicts and what was seen."""
        targets = [
            QosTarget(self.vms[name].observed(), QosClass(qos), self.vms[name].size + 16 * MIB)
            for name, qos in classes.items()
        ]
        states = self.lever.reconcile(targets, 400 * MIB, dry_run=False)
        return {
            name: {"verdict": str(one.verdict), "answer": one.verdict.answer, "observed": one.observed}
            for name, one in states.items()
        }

    def press(self, size: int) -> None:
        """Another process claims this much, and more and more, and keeps using it."""
        self.hog = Process(SYSTEM, size, hot=True, growth=8 * MIB)

    def settings(self) -> dict[str, str]:
        """All that the lever may change, as it stands."""
        found = {f"{MACHINE.name}/memory.min": (MACHINE / "memory.min").read_text().strip()}
        for name, vm in self.vms.items():
            for path in (vm.scope / "memory.min", vm.cgroup / "memory.min", vm.cgroup / "memory.swap.max"):
                found[f"{name} {path.relative_to(vm.scope)}"] = path.read_text().strip()
            found[f"{name} oom_score_adj"] = Path(f"/proc/{vm.pid}/oom_score_adj").read_text().strip()
        return found


def set_up() -> str:
    """The tree that systemd and libvirt make; the kernel's release."""
    (TOP / "cgroup.subtree_control").write_text("+memory")
    for level in (MACHINE, SYSTEM):
        level.mkdir()
    (MACHINE / "cgroup.subtree_control").write_text("+memory")
    return os.uname().release


def swap_on(encrypted: bool) -> None:
    """One disk to swap on, in the clear or through dm-crypt with a key of its own, as crypttab's ``swap`` does."""
    device = PLAIN
    if encrypted:
        device = "/dev/mapper/swap"
        key = os.urandom(32)
        _run("cryptsetup", "open", "--type", "plain", "--cipher", "aes-xts-plain64", "--key-size", "256",
             "--key-file", "-", CRYPT, "swap", given=key)  # fmt: skip
    _run("mkswap", device)
    _run("swapon", device)


def swap_off(encrypted: bool) -> None:
    """The disk is not swapped on any more."""
    _run("swapoff", "/dev/mapper/swap" if encrypted else PLAIN)
    if encrypted:
        _run("cryptsetup", "close", "swap")


def swaps() -> str:
    """What the kernel says it swaps on."""
    return Path("/proc/swaps").read_text()


def under_pressure(open_swap: bool, taken: str, enough: int, without: str = "") -> dict[str, Any]:
    """A guaranteed and a burstable VM while another process claims the rest of the memory; what was swapped.

    :param open_swap: memory.swap.max of the guaranteed VM is opened again, so that only memory.min stands for it
    :param taken: the VM that pressure lasts for, until ``enough`` bytes of it are in swap
    :param without: a level whose memory.min is taken away: "slice", "scope", or "all" for every one
    """
    size = 96 * MIB
    with Host(gold={"size": size}, lead={"size": size}) as host:
        told = host.bring(gold="guaranteed", lead="burstable")
        gold, lead = host.vms["gold"], host.vms["lead"]
        if open_swap:
            (gold.cgroup / "memory.swap.max").write_text("max")
        levels = {"slice": [MACHINE], "scope": [gold.scope], "all": [MACHINE, gold.scope, gold.cgroup], "": []}
        for level in levels[without]:
            (level / "memory.min").write_text("0")
        host.press((_available() - 32 * MIB) // MIB * MIB)
        end = time.monotonic() + PATIENCE
        while host.vms[taken].swapped() < enough and time.monotonic() < end:
            time.sleep(0.05)
        return {"told": told, "gold": gold.swapped(), "lead": lead.swapped()}


def back_and_forth(own_min: int) -> dict[str, Any]:
    """What stands before, while two VMs have their classes, when one has left its, and after undoing."""
    (MACHINE / "memory.min").write_text(str(own_min))
    with Host(gold={"size": 16 * MIB}, silver={"size": 16 * MIB}, rest={"size": 4 * MIB}) as host:
        Path(f"/proc/{host.vms['rest'].pid}/oom_score_adj").write_text("100")
        before = host.settings()
        told = host.bring(gold="guaranteed", silver="guaranteed", rest="best-effort")
        during = host.settings()
        again = host.bring(gold="guaranteed", silver="guaranteed", rest="best-effort")
        host.bring(gold="guaranteed", silver="burstable", rest="best-effort")
        one_left = host.settings()
        undone = host.lever.undo()
        return {
            "before": before, "told": told, "during": during, "again": again, "one_left": one_left,
            "undone": undone.answer, "after": host.settings(), "marks": len(host.ledger.marks),
        }  # fmt: skip


def undo_after_somebody_else() -> dict[str, Any]:
    """Undoing when an operator has set another memory.min on the VM meanwhile."""
    with Host(gold={"size": 16 * MIB}) as host:
        host.bring(gold="guaranteed")
        (host.vms["gold"].cgroup / "memory.min").write_text(str(20 * MIB))
        told = host.bring(gold="guaranteed")
        undone = host.lever.undo()
        return {
            "told": told["gold"], "undone": undone.answer, "detail": undone.detail, "after": host.settings(),
            "marks": len(host.ledger.marks),
        }  # fmt: skip


def outlived() -> dict[str, Any]:
    """A VM ends and another takes its name: the marks of the first say nothing of the second."""
    with Host(gold={"size": 16 * MIB}) as host:
        host.bring(gold="guaranteed")
        host.vms["gold"].end()
        host.vms["gold"] = Vm("gold", 16 * MIB)
        host.bring(gold="burstable")
        return {"marks": len(host.ledger.marks), "after": host.settings()}


class UnderKvm(GuestAdvice):
    """A guest of which is said that it runs under KVM: what it touches is not known then."""

    def look(self) -> GuestRam:
        return replace(super().look(), kvm=True)


def _lever(kvm: bool = False, tried: bool = True, **settings: Any) -> SwapOutLever:
    """:param tried: whether a guest is given time to touch what it uses, or all is taken at once"""
    guest = UnderKvm if kvm else GuestAdvice
    given = {"keep_free": 0, "most": 1 << 40, "settle": 2.0, **settings}
    lever = SwapOutLever(ROOT, lambda name: guest(ROOT, name), Clearings(), SwapOutSettings(**given), time.monotonic)
    if not tried:
        lever._trial.next = lambda instance, guest, wish: wish
        lever._trial.took = lambda instance, guest, size: None
    return lever


def _take(lever: SwapOutLever, vm: Vm, ask: int) -> SwapOutOutcome:
    """One take, as soon as the lever says that its time has come."""
    end = time.monotonic() + PATIENCE
    while True:
        outcome = lever.take(SwapOutTarget(vm.observed(), True), ask, dry_run=False)
        if outcome.verdict.answer is not Answer.PENDING or time.monotonic() > end:
            return outcome
        time.sleep(0.1)


def swap_out(hot: bool, size: int, ask: int, **settings: Any) -> dict[str, Any]:
    """One pull on a VM that is cold, or hot; a second VM does nothing meanwhile."""
    with Host(vm={"size": size, "hot": hot}, idle={"size": 4 * MIB}) as host:
        vm, idle = host.vms["vm"], host.vms["idle"]
        lever = _lever(**settings)
        before = {name: read_pressure(ROOT, str(one.cgroup)).some_total_us for name, one in host.vms.items()}
        memory = int((vm.cgroup / "memory.current").read_text())
        outcome = _take(lever, vm, ask)
        stalled = {
            name: read_pressure(ROOT, str(one.cgroup)).some_total_us - before[name] for name, one in host.vms.items()
        }
        return {
            "answer": outcome.verdict.answer, "reason": outcome.verdict.reason, "detail": outcome.verdict.detail,
            "asked": outcome.asked, "reclaimed": outcome.reclaimed, "swapped": outcome.swapped,
            "in_swap": vm.swapped(), "idle_in_swap": idle.swapped(),
            "memory_before": memory, "memory_after": int((vm.cgroup / "memory.current").read_text()),
            "stalled": stalled, "process_swap": process_memory(ROOT, vm.pid).swap,
        }  # fmt: skip


def used_in_swap(size: int, used: int, spread: bool, generations: bool, takes: int, **settings: Any) -> dict[str, Any]:
    """A VM that uses a part of its pages while all of its memory is asked for, again and again.

    :param used: pages that it touches ten times a second
    :param generations: by which of the kernel's two ways of ageing
    :param takes: pulls that may take something
    """
    before = LRU_GEN.read_text()
    LRU_GEN.write_text("y" if generations else "n")
    try:
        with Host(vm={"size": size, "used": used, "spread": spread}) as host:
            vm = host.vms["vm"]
            lever = _lever(**settings)
            faults = vm.faults()
            outcomes: list[SwapOutOutcome] = []
            while len(outcomes) < takes and (not outcomes or outcomes[-1].verdict.ok):
                outcomes.append(_take(lever, vm, size))
            return {
                "lru_gen": int(LRU_GEN.read_text(), 16), "pages": used, "in_swap": vm.used_in_swap(),
                "back": vm.faults() - faults,
                "swapped": [one.swapped for one in outcomes], "said": [str(one.verdict) for one in outcomes],
                "resident": process_memory(ROOT, vm.pid).rss,
            }  # fmt: skip
    finally:
        LRU_GEN.write_text(before)


def put_away(size: int, used: int, goal: float, seconds: float) -> dict[str, Any]:
    """A calm host that puts away what has rested for 10 s, until no more than a part of a VM is resident."""
    with Host(vm={"size": size, "used": used, "spread": True}) as host:
        return away(host.vms["vm"], goal, seconds)


def away(vm: Vm, goal: float, seconds: float, **settings: Any) -> dict[str, Any]:
    """As the agent does, a look a second: accessed bits, planner, lever."""
    clearings = Clearings()
    given = SwapOutSettings(**{"keep_free": 0, "settle": 2.0, "psi_stop": 90.0, "patience": 90.0, **settings})
    lever = SwapOutLever(ROOT, lambda name: GuestAdvice(ROOT, name), clearings, given, time.monotonic)
    watch = ReferencedWatch(ROOT, vm.pid, 30.0, clearings=clearings, ages=(10,))
    policy = effective({Origin.OPERATOR: {"swap_out": "allow"}})
    known: dict[str, Cold] = {}
    faults, began, due, last, resident = vm.faults(), time.monotonic(), 0.0, None, 1.0
    while (now := time.monotonic()) < began + seconds and resident > goal:
        if now >= due:
            due = watch.step(now)
        seen = replace(vm.observed(), active=watch.newest)
        known = next_cold(known, [seen], None if last is None else now - last, ColdSettings(after=10.0))
        wishes = cold_wishes(known, [Candidate(seen, policy, idle=True)])
        if wishes:
            lever.take(SwapOutTarget(seen, True), wishes[seen.uuid], dry_run=False)
        last, resident = now, read_guest_ram(ROOT, vm.pid).resident / vm.size
        time.sleep(1.0)
    return {
        "resident": resident, "seconds": time.monotonic() - began, "pages": len(vm.used), "in_swap": vm.used_in_swap(),
        "back": vm.faults() - faults, "active": None if watch.newest is None else watch.newest.active,
    }  # fmt: skip


def wakes(size: int, rounds: int, work: int, shuffled: bool = False, cluster: int | None = None) -> dict[str, Any]:
    """How long a VM takes to use all of its memory: left alone, from swap, and from swap with reading ahead.

    :param work: how often it reads each page, once it has written a byte of it
    :param shuffled: it uses its pages in no order, and not by address
    :param cluster: vm.page-cluster of the way from swap without reading ahead
    """
    shipped = CLUSTER.read_text()
    with Host(vm={"size": size, "sleeper": True, "shuffled": shuffled}) as host:
        vm = host.vms["vm"]
        found: dict[str, Any] = {"alone": [], "swap": [], "swap_faults": [], "ahead": [], "ahead_faults": [],
                                 "read": [], "mapped": [], "woke": [], "ended": [], "out": []}  # fmt: skip
        for _ in range(rounds):
            found["alone"].append(vm.wake(work))
            for way in ("swap", "ahead"):
                outcome = _take(_lever(tried=False, psi_stop=90.0, patience=120.0, allow_unencrypted=True), vm, size)
                found["out"].append(outcome.swapped)
                before = vm.faults()
                if way == "swap":
                    CLUSTER.write_text(shipped if cluster is None else str(cluster))
                    found[way].append(vm.wake(work))
                    CLUSTER.write_text(shipped)
                else:
                    with watched(vm) as told:
                        found[way].append(vm.wake(work))
                    for name in ("read", "mapped", "woke", "ended"):
                        found[name].append(told.get(name))
                found[f"{way}_faults"].append(vm.faults() - before)
        return found


@contextmanager
def watched(vm: Vm) -> Iterator[dict[str, Any]]:
    """As the agent does it: looks ten times a second, and reads ahead once the VM wakes."""
    told: dict[str, Any] = {}
    process, reads, over = process_memory(ROOT, vm.pid), SwapReads(ROOT), threading.Event()
    watch = WakeWatch(reads, time.monotonic)
    watch.want({process.instance: (process.rss, process.swap)})
    watch.look()

    def run() -> None:
        start = time.monotonic()
        while not over.wait(0.1):
            if watch.look():
                told["woke"] = time.monotonic() - start
                with GuestAdvice(ROOT, process.instance) as guest:
                    done = read_ahead(
                        guest, lambda: reads.of(vm.pid), _available, SwapQueue(ROOT).waiting, ReadAheadSettings(),
                        clock=time.monotonic, sleep=time.sleep, stop=over.is_set,
                    )  # fmt: skip
                told.update(read=done.size, mapped=done.mapped, ended=done.ended)
                return

    agent = threading.Thread(target=run)
    agent.start()
    try:
        yield told
    finally:
        over.set()
        agent.join()


def real_qemu(size: int, ask: int) -> dict[str, Any]:
    """A QEMU with a guest: its classes, then swapped out, then the guest touches all of its memory again."""
    with Host(vm={"size": size, "qemu": True}) as host:
        vm = host.vms["vm"]
        assert isinstance(vm, QemuVm)
        before = host.settings()
        classes = {}
        for qos in ("guaranteed", "best-effort", "burstable"):
            told = host.bring(vm=qos)["vm"]
            classes[qos] = {"told": told, "settings": host.settings()}
        # QEMU's own threads wait for a few of their pages too, long on a slow machine: that is not what is tried here
        outcome = _take(_lever(psi_stop=90.0, patience=90.0), vm, ask)
        out = process_memory(ROOT, vm.pid)
        vm.touch()
        back = process_memory(ROOT, vm.pid)
        return {
            "cgroups": Path(f"/proc/{vm.pid}/cgroup").read_text(), "classes": classes, "before": before,
            "answer": outcome.verdict.answer, "detail": outcome.verdict.detail, "swapped": outcome.swapped,
            "out": {"rss": out.rss, "swap": out.swap}, "back": {"rss": back.rss, "swap": back.swap},
        }  # fmt: skip


def _filled(size: int) -> mmap.mmap:
    memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory.madvise(mmap.MADV_DONTFORK)  # as QEMU marks its RAM
    block = os.urandom(MIB)
    for at in range(0, size, MIB):
        memory[at : at + MIB] = block
    return memory


def _places(size: int, used: int, spread: bool) -> list[int]:
    """Offsets of the pages that are used."""
    step = size // used // PAGE * PAGE if spread and used else PAGE
    return list(range(0, used * step, step))


def _empty_tlb() -> None:
    """Have accessed bits set again: the emulated processor keeps a translation, and then sets none.

    Unmapping more pages than x86 flushes one by one (33) empties its TLB; a real one has room for some 1,500.
    """
    scratch = mmap.mmap(-1, SCRATCH * PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    scratch.madvise(mmap.MADV_NOHUGEPAGE)
    scratch[::PAGE] = bytes(SCRATCH)
    scratch.close()


def _available() -> int:
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("no MemAvailable")


def _remove(path: Path) -> None:
    end = time.monotonic() + PATIENCE
    while True:
        try:
            path.rmdir()
            return
        except OSError:
            # a process that was killed is still on its way out
            if time.monotonic() > end:
                raise
            time.sleep(0.02)


def _run(*command: str, given: bytes | None = None) -> None:
    environment = {**os.environ, "DM_DISABLE_UDEV": "1"}
    done = subprocess.run(command, input=given, capture_output=True, env=environment, check=False)
    if done.returncode:
        raise RuntimeError(f"{command}: {done.stderr.decode(errors='replace')}")
