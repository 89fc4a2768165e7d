"""CPU time of a process."""

from __future__ import annotations

import os
from pathlib import Path


def cpu_seconds(pid: int, root: Path = Path("/")) -> float:
    """Seconds of CPU that a process took so far, in and outside the kernel, without those of its children."""
    return _seconds(root / f"proc/{pid}")


def exact_seconds(thread: Path) -> float:
    """The same of one thread, to the microsecond, where the kernel keeps it so. The thread is given by its folder."""
    try:
        return int((thread / "schedstat").read_text().split()[0]) / 1e9
    except (OSError, ValueError, IndexError):
        return cpu_seconds(int(thread.name), thread.parent.parent)


def thread_seconds(process: Path, prefix: str) -> float:
    """Seconds of CPU so far of all threads whose names begin so. The process is given by its folder in /proc."""
    total = 0.0
    for task in (process / "task").iterdir():
        try:
            if (task / "comm").read_text().startswith(prefix):
                total += _seconds(task)
        except OSError:
            continue  # it has just ended
    return total


def minor_faults(process: Path) -> int:
    """Page faults so far that took no read from a disk. The process is given by its folder in /proc."""
    return int(_stat(process)[7])


def _seconds(task: Path) -> float:
    fields = _stat(task)
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _stat(task: Path) -> list[str]:
    """The fields after the name, which may have anything in it."""
    return (task / "stat").read_text().rpartition(")")[2].split()
