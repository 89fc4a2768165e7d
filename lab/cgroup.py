"""A host's memory budget: one memory cgroup, in version 1, version 2 or a mix of both hierarchies."""

from __future__ import annotations

import errno
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from lab.errors import CgroupError
from lab.process import Process

PARENT = "memhint-lab"
_PAGE = 4096


@dataclass(frozen=True)
class Hierarchies:
    """Where cgroups live on this machine."""

    memory: Path
    memory_version: int
    unified: Path | None
    """Root of the version 2 hierarchy, None when there is none."""


def detect(mounts: str | None = None) -> Hierarchies:
    """Hierarchies named in `mounts` (text of /proc/self/mounts). Version 1 wins where it has the memory controller,
    because then version 2 cannot have it."""
    text = Path("/proc/self/mounts").read_text() if mounts is None else mounts
    v1: Path | None = None
    v2: Path | None = None
    for line in text.splitlines():
        _, where, kind, options = line.split()[:4]
        if kind == "cgroup" and "memory" in options.split(",") and v1 is None:
            v1 = Path(where)
        elif kind == "cgroup2" and v2 is None:
            v2 = Path(where)
    if v1 is not None:
        return Hierarchies(v1, 1, v2)
    if v2 is not None and "memory" in _words(v2 / "cgroup.controllers"):
        return Hierarchies(v2, 2, v2)
    raise CgroupError(
        "no cgroup hierarchy with a memory controller is mounted: "
        "boot without cgroup_disable=memory, or mount one at /sys/fs/cgroup"
    )


def _words(path: Path) -> list[str]:
    try:
        return path.read_text().split()
    except OSError:
        return []


def _keyed(path: Path) -> dict[str, int]:
    """A file of "name number" rows; empty when it is not there."""
    rows = {}
    try:
        for line in path.read_text().splitlines():
            name, _, value = line.partition(" ")
            rows[name] = int(value)
    except (OSError, ValueError):
        pass
    return rows


class HostCgroup:
    """The cgroup `memhint-lab/NAME`, in every hierarchy that has something to say about memory."""

    def __init__(self, name: str, hierarchies: Hierarchies | None = None) -> None:
        self.name = name
        self.hierarchies = hierarchies or detect()
        self.memory_path = self.hierarchies.memory / PARENT / name
        self._unified = self.hierarchies.unified / PARENT / name if self.hierarchies.unified else None

    @property
    def version(self) -> int:
        """Version of the hierarchy with the memory controller, 1 or 2."""
        return self.hierarchies.memory_version

    @property
    def pressure_path(self) -> Path | None:
        """The cgroup directory with memory.pressure; None when the kernel keeps pressure for the whole machine only."""
        if self._unified is not None and (self._unified / "memory.pressure").exists():
            return self._unified
        return None

    @property
    def paths(self) -> list[Path]:
        """All directories a process of this host has to be in."""
        paths = [self.memory_path]
        if self._unified is not None and self._unified != self.memory_path:
            paths.append(self._unified)
        return paths

    def create(self, budget: int, swap: int) -> None:
        """Make the cgroup with `budget` bytes of memory and `swap` bytes of swap on top."""
        for path in self.paths:
            if path.exists():
                raise CgroupError(
                    f"{path} exists: another lab of this name, or one that ended badly: lab/lab down --name NAME"
                )
            if self.version == 2:
                # A controller reaches a child only if every ancestor hands it down.
                for above in (path.parent.parent, path.parent):
                    above.mkdir(exist_ok=True)
                    self._write(above / "cgroup.subtree_control", "+memory")
            path.mkdir(parents=True)
        self.set_limits(budget, swap)

    def set_limits(self, budget: int, swap: int) -> None:
        """Allow `budget` bytes of memory and `swap` bytes of swap on top."""
        if self.version == 2:
            self._write(self.memory_path / "memory.max", str(budget))
            if (self.memory_path / "memory.swap.max").exists():
                self._write(self.memory_path / "memory.swap.max", str(swap))
            return
        both = self.memory_path / "memory.memsw.limit_in_bytes"
        limit = self.memory_path / "memory.limit_in_bytes"
        # The kernel refuses a sum below the limit, so the one that grows goes first.
        rows = [(limit, budget), (both, budget + swap)]
        if both.exists() and int(limit.read_text()) < budget:
            rows.reverse()
        for path, value in rows:
            if path.exists():
                self._write(path, str(value))

    def limit(self) -> int:
        """Bytes of memory the host may use."""
        text = (self.memory_path / ("memory.max" if self.version == 2 else "memory.limit_in_bytes")).read_text().strip()
        return (1 << 63) - _PAGE if text == "max" else int(text)

    def usage(self) -> int:
        """Bytes of memory charged now, page cache included."""
        return int(
            (self.memory_path / ("memory.current" if self.version == 2 else "memory.usage_in_bytes")).read_text()
        )

    def swap_used(self) -> int:
        """Bytes of this host's memory that are in swap now."""
        if self.version == 2:
            path = self.memory_path / "memory.swap.current"
            return int(path.read_text()) if path.exists() else 0
        return _keyed(self.memory_path / "memory.stat").get("total_swap", 0)

    def in_use(self) -> int:
        """Bytes that this host has to keep, in memory or in swap; files in the page cache can be read again."""
        stat = _keyed(self.memory_path / "memory.stat")
        # Version 1 counts what is below in rows of their own, and a page that came back from swap as out of it.
        total = "total_" if self.version == 1 else ""
        again = sum(stat.get(f"{total}{name}", 0) for name in ("active_file", "inactive_file"))
        twice = stat.get("swapcached", 0) if self.version == 2 else 0
        return self.usage() - again + self.swap_used() - twice

    def oom_kills(self) -> int:
        """Processes the kernel has killed here for want of memory."""
        file = "memory.events" if self.version == 2 else "memory.oom_control"
        return _keyed(self.memory_path / file).get("oom_kill", 0)

    def pids(self) -> set[int]:
        """Pids that are in this host's cgroup, in any hierarchy."""
        found: set[int] = set()
        for path in self.paths:
            found.update(int(word) for word in _words(path / "cgroup.procs"))
        return found

    def processes(self) -> list[Process]:
        """Processes in this host's cgroup, zombies left out."""
        return [process for pid in self.pids() if (process := Process.of(pid)) is not None]

    def require(self, pid: int, what: str) -> None:
        """Raise unless `pid` is charged to this host in every hierarchy."""
        for path in self.paths:
            if str(pid) not in _words(path / "cgroup.procs"):
                raise CgroupError(
                    f"{what} (pid {pid}) is not in {path}: its memory is not charged to the host's budget"
                )

    def remove(self) -> None:
        """Take the cgroup away; its processes must have ended. Nothing happens when it is not there."""
        for path in self.paths:
            self._remove(path)
            with suppress(OSError):  # other labs may be in it
                path.parent.rmdir()

    @staticmethod
    def _remove(path: Path) -> None:
        # A process that has just been killed may still be on its way out.
        deadline = time.monotonic() + 10
        while True:
            try:
                path.rmdir()
                return
            except FileNotFoundError:
                return
            except OSError as reason:
                if reason.errno != errno.EBUSY or time.monotonic() > deadline:
                    raise CgroupError(
                        f"{path} cannot be removed: {reason}; processes in it: {_words(path / 'cgroup.procs')}"
                    ) from reason
                time.sleep(0.02)

    @staticmethod
    def _write(path: Path, text: str) -> None:
        try:
            path.write_text(text)
        except OSError as reason:
            raise CgroupError(f"{path}: cannot write {text!r}: {reason}") from reason
