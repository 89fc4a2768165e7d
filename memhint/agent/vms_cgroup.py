"""Which cgroup holds the VMs, and what the kernel counts there: found once per process, then looked up again."""

from __future__ import annotations

from collections.abc import Mapping

from memhint.kernel.errors import KernelInterfaceError
from memhint.kernel.process_cgroup import Home, home
from memhint.kernel.root import KernelRoot
from memhint.kernel.vms_cgroup import common_cgroup, read_vms_cgroup, read_vms_pressure
from memhint.objects.domain import ProcessMemory
from memhint.objects.host import VmsCgroup

AGAIN = 60.0  # seconds after which a process is looked up again: it may have been moved


class VmsCgroupReads:
    """Reads the VMs' cgroup. What cannot be told is None: then the host's own figures stand for the VMs'."""

    def __init__(self, root: KernelRoot, page_size: int) -> None:
        self._root = root
        self._page_size = page_size
        self._homes: dict[str, Home] = {}  # by QEMU process
        self._since = float("-inf")
        self._path: str | None = None

    def read(self, processes: Mapping[str, ProcessMemory], now: float, *, complete: bool) -> VmsCgroup | None:
        """The cgroup of these QEMU processes.

        :param complete: whether they are all that run; a part of them says nothing of the others
        """
        self._path = None
        if not complete:
            return None
        if now - self._since > AGAIN:
            self._homes, self._since = {}, now
        try:
            self._homes = {
                one.instance: self._homes.get(one.instance) or home(self._root, one.pid) for one in processes.values()
            }
            path = common_cgroup(set(self._homes.values()))
            if path is None:
                return None
            found = read_vms_cgroup(self._root, path, self._page_size)
        except KernelInterfaceError:
            self._homes = {}
            return None
        self._path = path
        return found

    def pressure(self) -> float | None:
        """The percent of pressure on the cgroup that was read last; None where nothing tells."""
        if self._path is None:
            return None
        try:
            found = read_vms_pressure(self._root, self._path)
        except KernelInterfaceError:
            return None
        return found.some_avg10 if found else None
