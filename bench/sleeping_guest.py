"""A guest that uses all of its memory when it is told, is put away to swap, and wakes."""

from __future__ import annotations

import subprocess
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from lab.cgroup import HostCgroup
from lab.errors import CgroupError
from lab.waiting import wait_for
from memhint.agent.runners.wake import EVERY, reader
from memhint.kernel.meminfo import machine_memory
from memhint.kernel.process import process_memory
from memhint.kernel.root import KernelRoot
from memhint.kernel.swap_reads import SwapReads
from memhint.levers.read_ahead import ReadAheadSettings
from memhint.levers.wake_watch import WakeWatch
from memhint.objects.units import MIB

_LEAST = 16 * MIB  # what the cgroup may hold while all is to go, where it is told so: it cannot be nothing
_LEFT = _LEAST + 4 * MIB  # of the guest's memory, at most: some of what the cgroup holds may be the guest's
_PATIENCE = 300.0  # seconds until all is in swap


@dataclass(frozen=True, slots=True)
class Wake:
    """Seconds to use all of its memory, left alone, from swap and with reading ahead; and how often it waited."""

    alone: float
    swap: float
    ahead: float
    swap_waits: int
    ahead_waits: int


class SleepingGuest:
    """A QEMU in a cgroup, whose guest works as a byte on its serial line says (lab/waking_guest.S)."""

    def __init__(self, bios: Path, size: int, cgroup: HostCgroup) -> None:
        self.size = size
        self._cgroup = cgroup
        self._qemu = subprocess.Popen(
            ["qemu-system-x86_64", "-accel", "tcg,tb-size=16", "-M", "pc", "-nodefaults", "-vga", "none",
             "-display", "none", "-m", str(size // MIB), "-bios", str(bios), "-serial", "stdio"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, bufsize=0,
            preexec_fn=self._enter,
        )  # fmt: skip
        try:
            self._await()
            self._tell("f")
        except BaseException:
            self.close()
            raise

    @property
    def pid(self) -> int:
        """Its QEMU's."""
        return self._qemu.pid

    def use(self, often: int) -> float:
        """Have it write to each page of its memory, and read every word of it so often; the seconds that it took."""
        return self._tell(str(often))

    def waits(self) -> int:
        """How often it has waited for a page from a disk."""
        return int(Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[9])

    def put_away(self) -> None:
        """Have all of it go to swap, and out of the kernel's swap cache."""

        def squeezed() -> bool:
            with suppress(CgroupError, OSError):  # some of it cannot go, and some not yet
                if self._cgroup.version == 2:
                    (self._cgroup.memory_path / "memory.reclaim").write_text(str(self.size))
                else:
                    self._cgroup.set_limits(_LEAST, 4 * self.size)
            return self._swapped() >= self.size - _LEFT and self._cgroup.usage() < _LEFT

        def seen() -> str:
            return f"{self._swapped()} of {self.size} bytes in swap, {self._cgroup.usage()} left in memory"

        try:
            wait_for(squeezed, _PATIENCE, "its memory to go to swap", seen=seen)
        finally:
            self._cgroup.set_limits(2 * self.size, 4 * self.size)

    def _swapped(self) -> int:
        return process_memory(KernelRoot(), self.pid).swap

    def close(self) -> None:
        """End it."""
        self._qemu.kill()
        self._qemu.wait()

    def _enter(self) -> None:
        for path in self._cgroup.paths:
            (path / "cgroup.procs").write_text("0")

    def _tell(self, command: str) -> float:
        assert self._qemu.stdin
        start = time.monotonic()
        self._qemu.stdin.write(command.encode())
        self._await()
        return time.monotonic() - start

    def _await(self) -> None:
        assert self._qemu.stdout
        if (answer := self._qemu.stdout.read(1)) != b"r":
            raise RuntimeError(f"the guest answered {answer!r}: a word was not what it wrote, or it ended")

    def __enter__(self) -> SleepingGuest:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def ahead_of(guest: SleepingGuest, often: int) -> float:
    """As `SleepingGuest.use`, while somebody looks whether the guest wakes and reads ahead of it, as the agent does."""
    root, over = KernelRoot(), threading.Event()
    process = process_memory(root, guest.pid)
    watch = WakeWatch(SwapReads(root), time.monotonic)
    watch.want({process.instance: (process.rss, process.swap)})
    watch.look()
    read = reader(root, lambda: machine_memory(root).available, ReadAheadSettings())

    def run() -> None:
        while not over.wait(EVERY):
            if watch.look():
                read(process.instance, over.is_set)
                return

    agent = threading.Thread(target=run, name="wakes")
    agent.start()
    try:
        return guest.use(often)
    finally:
        over.set()
        agent.join()
