"""Processes told apart by (pid, start time), so that a reused pid is never taken for one of ours."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Process:
    """One process, of one pid's several owners over time."""

    pid: int
    started: int
    """Start time in clock ticks after boot, field 22 of /proc/PID/stat."""

    @classmethod
    def of(cls, pid: int) -> Process | None:
        """The process that has `pid` now; None when there is none or only its zombie."""
        fields = _stat(pid)
        return None if fields is None else cls(pid, int(fields[19]))

    @property
    def alive(self) -> bool:
        """Whether it has not ended; a zombie has."""
        return Process.of(self.pid) == self

    @property
    def stopped(self) -> bool:
        """Whether it stands still after SIGSTOP."""
        fields = _stat(self.pid)
        return self.alive and fields is not None and fields[0] == "T"

    def kill(self, number: signal.Signals) -> None:
        """Send a signal, unless the process has ended (also when its pid has a new owner)."""
        if self.alive:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)


def _stat(pid: int) -> list[str] | None:
    """/proc/PID/stat after the command name (which may hold spaces and brackets), from the state on."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            text = file.read()
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = text.rpartition(")")[2].split()
    # A zombie holds no memory and no files: for the lab it has ended, unless threads of it (field 20 counts them and
    # itself) are still on their way out.
    ended = not fields or fields[0] == "X" or (fields[0] == "Z" and int(fields[17]) <= 1)
    return None if ended else fields


def end_all(processes: Iterable[Process], grace: float) -> list[Process]:
    """End processes, asking first and for `grace` seconds; returns those that are still there after SIGKILL."""
    left = [process for process in processes if process.alive]
    for number, patience in ((signal.SIGTERM, grace), (signal.SIGKILL, 10.0)):
        for process in left:
            process.kill(number)
            # A stopped process acts on SIGTERM only once it runs again.
            process.kill(signal.SIGCONT)
        deadline = time.monotonic() + patience
        while True:
            left = [process for process in left if process.alive]
            if not left or time.monotonic() > deadline:
                break
            time.sleep(0.02)
    return left
