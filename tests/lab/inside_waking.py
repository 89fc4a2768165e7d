"""What test_waking has done inside the virtual host: a nested guest that is put away, and wakes.

Only the standard library is there. Seconds are the virtual host's; the test judges.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from inside_cgroup2 import MIB, PAGE, ROOT, Host, QemuVm, away, watched

from memhint.kernel.process import process_memory

FIRST = MIB  # the guest uses its memory from here on


class Guest(QemuVm):
    """A real QEMU whose guest works with its memory as it is told (waking_guest.S)."""

    bios = "waking_guest.bin"

    def __init__(self, name: str, size: int) -> None:
        super().__init__(name, size)
        blocks = range(FIRST, size - 7 * PAGE, 10 * PAGE)
        self.used = [start + page * PAGE for start in blocks for page in (0, 3, 6)]
        self.tell("f")

    def tell(self, command: str) -> float:
        """Have it do that; the seconds that it took."""
        assert self.qemu.stdin
        start = time.monotonic()
        self.qemu.stdin.write(command.encode())
        self._touched()
        return time.monotonic() - start

    def counts(self) -> tuple[int, int, float]:
        """Faults in all, those that waited for a disk, and seconds that its threads ran."""
        words = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        ran = sum(int((one / "schedstat").read_text().split()[0]) for one in Path(f"/proc/{self.pid}/task").iterdir())
        return int(words[7]) + int(words[9]), int(words[9]), ran / 1e9

    @contextmanager
    def hot(self) -> Iterator[None]:
        """It uses three pages in ten, ten times a second, and is stopped in between: waiting for a byte it would spin.

        Whoever tells it runs on its processor: changing from one process to another empties the emulated TLB there, so
        that accessed bits are set again.
        """
        over, failed = threading.Event(), []

        def run() -> None:
            os.sched_setaffinity(0, {0})
            try:
                while not over.wait(0.1):
                    os.kill(self.pid, signal.SIGCONT)
                    self.tell("h")
                    os.kill(self.pid, signal.SIGSTOP)
            except (OSError, RuntimeError) as error:
                failed.append(error)

        everywhere = os.sched_getaffinity(0)
        thread = threading.Thread(target=run)
        self._processors({0})
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()
            os.kill(self.pid, signal.SIGCONT)
            self._processors(everywhere)
        if failed:
            raise failed[0]

    def _processors(self, where: set[int]) -> None:
        for thread in Path(f"/proc/{self.pid}/task").iterdir():
            with suppress(FileNotFoundError, ProcessLookupError):  # QEMU's helpers come and go
                os.sched_setaffinity(int(thread.name), where)


def guest_wakes(size: int, passes: list[int], goal: float, seconds: float, ahead: bool = True) -> list[dict[str, Any]]:
    """Put a guest away while it uses three pages in ten, then have it use all of its memory: against one left alone.

    :param passes: how often it reads each word of a page before it goes on, of each round
    :param goal: resident part at which it counts as put away
    :param seconds: that this may take
    :param ahead: whether what it has in swap is read ahead
    """
    rows = []
    with Host() as host:
        vm = host.vms["vm"] = Guest("vm", size)
        for often in passes:
            vm.tell(str(often))
            before = vm.counts()
            alone = vm.tell(str(often))
            between = vm.counts()
            with vm.hot():
                put = away(vm, goal, seconds, allow_unencrypted=True)
            out = process_memory(ROOT, vm.pid).swap  # the cgroup counts places of what was read again, too
            told: dict[str, Any] = {}
            asleep = vm.counts()
            if ahead:
                with watched(vm) as told:
                    took = vm.tell(str(often))
            else:
                took = vm.tell(str(often))
            awake = vm.counts()
            rows.append({
                "passes": often, "alone": alone, "awake": took, "put": put, "out": out, **told,
                "faults": awake[0] - asleep[0], "waits": awake[1] - asleep[1], "ran": awake[2] - asleep[2],
                "faults_alone": between[0] - before[0], "ran_alone": between[2] - before[2],
            })  # fmt: skip
    return rows
