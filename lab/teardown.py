"""Ending a lab from what is recorded of it. Works for the process that started it, for any other, and after a crash."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import IO

from lab import swap
from lab.cgroup import PARENT, HostCgroup, detect
from lab.errors import HostError, StateError
from lab.process import end_all
from lab.state import LOCK, StateFile, is_lab, sign

GRACE = 2.0
"""Seconds that processes get between SIGTERM and SIGKILL."""

AGENT_GRACE = 40.0
"""The same for memhint agents, which put back what they changed, on the machine and in guests that must still run."""


def teardown(directory: Path) -> bool:
    """End everything of the lab in `directory` and remove it; False when there is none, whatever else is there."""
    if not is_lab(directory):
        return False
    try:
        lock = (directory / LOCK).open("r+")
    except FileNotFoundError:
        return False
    with lock:
        # A keeper and a user may come at the same time: the second finds nothing left, or a lab that was started since.
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not _is_of(lock, directory):
            return False
        agents, recorded = [], []
        swap_file = directory / "swap"
        cgroups = [HostCgroup(name) for name in _cgroups_of(directory.name)]
        try:
            record = StateFile(directory).load()
            for host in record.hosts:
                agents += [process for role, process in host.processes.items() if role == "agent"]
                recorded += [*host.processes.values(), *(guest.qemu for guest in host.guests if guest.qemu)]
        except StateError:
            pass  # damaged, or ended before the first write: the cgroups and the known file names still tell
        end_all(agents, AGENT_GRACE)
        left = end_all(recorded, GRACE)
        for cgroup in cgroups:
            # Membership catches what was started and not yet recorded; twice, for a child forked meanwhile.
            for _ in range(2):
                left += end_all(cgroup.processes(), GRACE)
        if any(process.alive for process in left):
            raise HostError(
                f"these processes did not end on SIGKILL: {[process.pid for process in left]}: "
                "they wait for the disk or the kernel; try again"
            )
        for cgroup in cgroups:
            cgroup.remove()
        swap.remove(swap_file)
        _remove(directory, lock)
        return True


def _is_of(lock: IO[str], directory: Path) -> bool:
    """Whether the lock is the one that is there now."""
    try:
        return os.path.samestat(os.fstat(lock.fileno()), (directory / LOCK).stat())
    except FileNotFoundError:
        return False


def _remove(directory: Path, lock: IO[str]) -> None:
    """Remove all of it, the lock last: if this is killed, what is left is still a lab's."""
    sign(lock)
    while rest := [path for path in directory.iterdir() if path.name != LOCK]:
        for path in rest:
            if path.is_dir() and not path.is_symlink():
                try:
                    shutil.rmtree(path)
                except OSError as reason:
                    # A thread that booted a guest when its lab was ended has just put a lock there: once more.
                    if reason.errno != errno.ENOTEMPTY:
                        raise
            else:
                path.unlink(missing_ok=True)
    (directory / LOCK).unlink()
    with suppress(OSError):  # a new lab has taken the name since the line above
        directory.rmdir()


def _cgroups_of(lab: str) -> list[str]:
    """Names of the host cgroups of `lab`, as they are in the hierarchies now."""
    hierarchies = detect()
    roots = {hierarchies.memory, hierarchies.unified or hierarchies.memory}
    return sorted({path.name for root in roots for path in (root / PARENT).glob(f"{lab}.*") if path.is_dir()})
