"""/proc/PID/cgroup: which memory cgroup a process is charged to, and the ones above it."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass
from posixpath import basename, dirname

from memhint.kernel.errors import InterfaceMissing, ProcessGone
from memhint.kernel.memcg import CgroupVersion, detect, members
from memhint.kernel.process import program_name, read_process_file
from memhint.kernel.root import KernelRoot

_MOUNTS = "proc/self/mounts"


@dataclass(frozen=True, slots=True)
class Home:
    """The cgroup that a process's memory is charged to, and where its hierarchy is mounted. Directories."""

    version: CgroupVersion
    path: str
    mount: str

    @property
    def for_many(self) -> bool:
        """True for what systemd makes for more than one VM: a slice, a service, a login session."""
        unit = basename(self.path)
        return unit.endswith((".service", ".slice")) or unit.startswith("session-")

    @property
    def ancestors(self) -> tuple[str, ...]:
        """The cgroups above it, the nearest first, the hierarchy's root left out."""
        return tuple(_levels(dirname(self.path), self.mount))


def home(root: KernelRoot, pid: int) -> Home:
    """Where the memory of a process is charged.

    With version 2 that can be above the cgroup that /proc names: libvirt puts QEMU's threads into threaded cgroups
    (emulator, vcpu0, …), and those have no memory of their own; the next one above that has is meant.

    :raises InterfaceMissing: when no memory hierarchy is mounted here, or the process is in its root
    :raises ProcessGone: when the process ended
    :raises KernelInterfaceError: when a file cannot be read
    """
    where = root.path(f"proc/{pid}/cgroup")
    rows = [line.split(":", 2) for line in read_process_file(root, pid, "cgroup").split("\n")]
    named = {row[1]: row[2] for row in rows if len(row) == 3}
    # where version 1 has the memory controller, version 2 cannot have it
    legacy = next((controllers for controllers in named if "memory" in controllers.split(",")), None)
    version = CgroupVersion.V2 if legacy is None else CgroupVersion.V1
    path, mount = named.get(legacy or ""), _mount(root, version)
    if path is None or mount is None:
        raise InterfaceMissing(where, "no hierarchy with the memory controller")
    if "/../" in f"{path}/":
        raise InterfaceMissing(where, "its cgroup lies outside of the agent's cgroup namespace")
    for level in _levels((mount + path).rstrip("/"), mount):
        try:
            if detect(root, level) is version:
                return Home(version, level, mount)
        except InterfaceMissing:
            pass  # threaded, or the controller is not handed down to here
    raise InterfaceMissing(where, "it is in the root cgroup, which has no memory of its own")


def with_others(root: KernelRoot, place: Home, pid: int, qemus: Collection[int]) -> bool:
    """Whether another QEMU is in a QEMU's cgroup, as where libvirt makes none for its VMs: what is done there holds for
    that one, too. A VM's own helpers may be in it, such as swtpm.

    :param qemus: those that are known, by pid
    :raises ProcessGone: when the process ended
    :raises KernelInterfaceError: when the cgroup cannot be read
    """
    others = members(root, place.path) - {pid}
    if not others:
        return False  # as nearly always
    if not others.isdisjoint(qemus):
        return True
    # One that libvirt does not tell of is known by its name, unless each has a name of its own.
    mine = program_name(root, pid)
    for one in others:
        with suppress(ProcessGone):
            if program_name(root, one) == mine:
                return True
    return False


def _levels(path: str, mount: str) -> Iterator[str]:
    """A cgroup and those above it, the nearest first, the hierarchy's root left out."""
    while len(path) > len(mount):
        yield path
        above = dirname(path)
        if above == path:
            return  # slashes and nothing else: text that names no cgroup
        path = above


def _mount(root: KernelRoot, version: CgroupVersion) -> str | None:
    for point, kind, options in _mounts(root):
        if version is CgroupVersion.V2 and kind == "cgroup2":
            return point
        if version is CgroupVersion.V1 and kind == "cgroup" and "memory" in options.split(","):
            return point
    return None


def _mounts(root: KernelRoot) -> Iterator[tuple[str, str, str]]:
    for line in root.lines(_MOUNTS):
        words = line.split(" ")
        if len(words) >= 4:
            yield words[1], words[2], words[3]
