"""Which cgroups hold the VMs, and what the kernel counts there: found once per process, then looked up again."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace

from memhint.kernel.errors import InterfaceMissing, KernelInterfaceError
from memhint.kernel.memcg import own_swap_limit
from memhint.kernel.process_cgroup import Home, home
from memhint.kernel.root import KernelRoot
from memhint.kernel.vms_cgroup import common_cgroup, read_vms_cgroup, read_vms_pressure
from memhint.objects.domain import ProcessMemory
from memhint.objects.gap import Gap, GapReason
from memhint.objects.host import HostObservation, SwapLimit, VmsCgroup

AGAIN = 60.0  # seconds after which processes and limits are looked up again: they may have been moved, or changed


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a QEMU process was found; None where no memory cgroup holds it that could be told."""

    instance: str
    home: Home | None


class VmsCgroupReads:
    """Reads the VMs' cgroups. Where no cgroup holds them all the host's own figures stand for the VMs'."""

    def __init__(self, root: KernelRoot, page_size: int) -> None:
        self._root = root
        self._page_size = page_size
        self._places: dict[str, _Place] = {}  # by VM
        self._limits: dict[str, int | None] = {}  # of swap, by cgroup
        self._since = float("-inf")
        self._path: str | None = None

    def inherit(self, before: VmsCgroupReads) -> None:
        """Go on from where an earlier one of this process found the VMs."""
        self._places, self._limits, self._since = before._places, before._limits, before._since

    def add_to(
        self, host: HostObservation, processes: Mapping[str, ProcessMemory], unread: Collection[str], now: float
    ) -> HostObservation:
        """The host, with the cgroup that holds these VMs, and the limits of all that do. What is not known is a gap.

        :param processes: the VMs' QEMUs, by UUID
        :param unread: the VMs that run, too, and whose process was not read
        """
        vms: VmsCgroup | None = None
        trouble = "the QEMU of a VM was not read" if unread else None
        try:
            self._find(processes, unread, now)
            vms = None if unread else self._common()
        except KernelInterfaceError as error:
            trouble = str(error)
            self._since = float("-inf")  # it may have been moved: looked up again the next time
        self._path = vms.path if vms is not None else None
        gaps = host.gaps if trouble is None else (*host.gaps, Gap("vms", GapReason.UNREADABLE, trouble))
        return replace(host, vms=vms, swap_limits=tuple(self._swap_limits()), gaps=gaps)

    def pressure(self) -> float | None:
        """The percent of pressure on the cgroup that was read last; None where nothing tells."""
        if self._path is None:
            return None
        try:
            found = read_vms_pressure(self._root, self._path)
        except KernelInterfaceError:
            return None
        return found.some_avg10 if found else None

    def _find(self, processes: Mapping[str, ProcessMemory], unread: Collection[str], now: float) -> None:
        """Look up where the VMs are.

        One that was not read is taken to be where it was: a part of the VMs says nothing of the others, but a limit
        that held goes on.

        :raises KernelInterfaceError: when that of one cannot be told; the others are looked up all the same
        """
        again = now - self._since > AGAIN
        if again:
            self._since, self._limits = now, {}
        self._places = {uuid: one for uuid, one in self._places.items() if uuid in processes or uuid in unread}
        trouble: KernelInterfaceError | None = None
        for uuid, one in processes.items():
            known = self._places.get(uuid)
            if again or known is None or known.instance != one.instance:
                try:
                    self._places[uuid] = _Place(one.instance, self._home(one.pid))
                except KernelInterfaceError as error:
                    trouble = error
        if trouble is not None:
            raise trouble

    def _home(self, pid: int) -> Home | None:
        try:
            return home(self._root, pid)
        except InterfaceMissing:
            return None

    def _common(self) -> VmsCgroup | None:
        homes = {one.home for one in self._places.values()}
        known = {one for one in homes if one is not None}
        path = common_cgroup(known) if known == homes else None
        return None if path is None else read_vms_cgroup(self._root, path, self._page_size)

    def _swap_limits(self) -> Iterator[SwapLimit]:
        held: dict[str, list[str]] = {}
        for uuid, one in self._places.items():
            for level in (one.home.path, *one.home.ancestors) if one.home is not None else ():
                held.setdefault(level, []).append(uuid)
        found: dict[tuple[str, ...], int] = {}
        for path, uuids in held.items():
            most, vms = self._limit(path), tuple(uuids)
            if most is not None:
                found[vms] = min(found.get(vms, most), most)
        for vms, most in found.items():
            yield SwapLimit(most, vms)

    def _limit(self, path: str) -> int | None:
        """What a cgroup may have of swap; None where nothing limits it, or that cannot be read now."""
        if path not in self._limits:
            try:
                self._limits[path] = own_swap_limit(self._root, path)
            except KernelInterfaceError:
                return None
        return self._limits[path]
