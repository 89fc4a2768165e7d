"""Which process is a VM's QEMU, and what it takes now."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from memhint.kernel.errors import ProcessGone
from memhint.kernel.ksm_partition import has_partitions, read_partition
from memhint.kernel.process import pid_from_file, process_is, process_memory
from memhint.kernel.root import KernelRoot
from memhint.objects.domain import ProcessMemory


class Processes:
    """Finds QEMU processes through libvirt's pid files, and knows them again cheaply."""

    def __init__(self, root: KernelRoot, run_dir: Path, page_size: int) -> None:
        """:param run_dir: libvirt's /run/libvirt/qemu, where NAME.pid lies."""
        self._root = root
        self._run_dir = run_dir
        self._page_size = page_size
        self._partitions = has_partitions(root)
        self._known: dict[str, tuple[int, int]] = {}  # UUID → pid and start

    def read(self, uuid: str, name: str) -> ProcessMemory:
        """The memory of a running VM's QEMU.

        :raises KernelInterfaceError: when there is none, or it cannot be read
        """
        known = self._known.get(uuid)
        if known is not None:
            try:
                memory = self._memory(known[0])
            except ProcessGone:
                memory = None
            if memory is not None and memory.start_ticks == known[1]:
                return memory
            # The pid is another process's by now, or of none: the VM was restarted.
            del self._known[uuid]
        pid = pid_from_file(self._run_dir / f"{name}.pid")
        if not process_is(self._root, pid, uuid):
            raise ProcessGone(str(self._run_dir / f"{name}.pid"), f"process {pid} is not this VM's QEMU")
        memory = self._memory(pid)
        self._known[uuid] = (pid, memory.start_ticks)
        return memory

    def _memory(self, pid: int) -> ProcessMemory:
        memory = process_memory(self._root, pid, self._page_size)
        return replace(memory, ksm_partition=read_partition(self._root, pid)) if self._partitions else memory

    def keep(self, uuids: Iterable[str]) -> None:
        """Forget every VM but these."""
        wanted = set(uuids)
        self._known = {uuid: known for uuid, known in self._known.items() if uuid in wanted}
