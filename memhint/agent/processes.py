"""Which process is a VM's QEMU, and what it takes now."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

from memhint.agent.waiting_reads import WAIT, WaitingReads
from memhint.kernel.errors import KernelInterfaceError, ProcessGone
from memhint.kernel.ksm_partition import has_partitions, read_partition
from memhint.kernel.process import pid_from_file, process_held, process_is, process_memory
from memhint.kernel.root import KernelRoot
from memhint.objects.domain import PROCESS, ProcessMemory
from memhint.objects.gap import Gap, GapReason

_Key = tuple[str, str]  # a VM's UUID, and an instance of its QEMU


class Processes:
    """Finds QEMU processes through libvirt's pid files, and knows them again cheaply.

    On the caller's thread only files are read that take no mmap lock.
    """

    def __init__(self, root: KernelRoot, run_dir: Path, page_size: int, wait: float = WAIT) -> None:
        """:param run_dir: libvirt's /run/libvirt/qemu, where NAME.pid lies
        :param wait: seconds for which what may wait for an mmap lock is waited for
        """
        self._root = root
        self._run_dir = run_dir
        self._page_size = page_size
        self._partitions = has_partitions(root)
        self._known: dict[str, tuple[int, int]] = {}  # UUID → pid and start, of processes that are the VM's
        self._waiting: WaitingReads[_Key, ProcessMemory | Gap] = WaitingReads(wait)

    def inherit(self, before: Processes) -> None:
        """Go on from what an earlier one of this process knows, and with its threads that hang."""
        self._known, self._waiting = before._known, before._waiting

    def read(
        self, names: Mapping[str, str], most: Mapping[str, int]
    ) -> tuple[dict[str, ProcessMemory], dict[str, Gap]]:
        """The memory of running VMs' QEMUs, and why that of one cannot be told; every other VM is forgotten.

        :param names: of the VMs, by UUID
        :param most: bytes that each can have, QEMU's own among them, where that is known
        """
        held: dict[str, ProcessMemory] = {}
        gaps: dict[str, Gap] = {}
        for uuid, name in names.items():
            try:
                held[uuid] = self._held(uuid, name)
            except KernelInterfaceError as error:
                gaps[uuid] = error.gap(PROCESS)
        wanted = {
            (uuid, one.instance): partial(self._whole, uuid, one, self._known.get(uuid) == (one.pid, one.start_ticks))
            for uuid, one in held.items()
        }
        answers = self._waiting.read(wanted)
        found: dict[str, ProcessMemory] = {}
        for uuid, one in held.items():
            answer = answers.get((uuid, one.instance))
            if answer is None:
                # Not even whose process it is can be told: the VM counts as not observed.
                gaps[uuid] = Gap(PROCESS, GapReason.TIMEOUT, f"process {one.pid} keeps its counters of KSM waiting")
            elif isinstance(answer.value, Gap):
                gaps[uuid] = answer.value
            elif answer.fresh:
                found[uuid] = replace(answer.value, ksm_partition=one.ksm_partition)
            else:
                found[uuid] = _since(answer.value, one, most.get(uuid))
        self._known = {uuid: (one.pid, one.start_ticks) for uuid, one in found.items()}
        return found, gaps

    def _held(self, uuid: str, name: str) -> ProcessMemory:
        known = self._known.get(uuid)
        if known is not None:
            try:
                memory = self._memory(known[0])
            except ProcessGone:
                memory = None
            if memory is not None and memory.start_ticks == known[1]:
                return memory
            # The pid is another process's by now, or of none: the VM was restarted.
        return self._memory(pid_from_file(self._run_dir / f"{name}.pid"))

    def _memory(self, pid: int) -> ProcessMemory:
        memory = process_held(self._root, pid)
        return replace(memory, ksm_partition=read_partition(self._root, pid)) if self._partitions else memory

    def _whole(self, uuid: str, one: ProcessMemory, known: bool) -> ProcessMemory | Gap:
        gone = ProcessGone(self._root.path(f"proc/{one.pid}"), f"process {one.pid} is not this VM's QEMU")
        try:
            if not known and not process_is(self._root, one.pid, uuid):
                raise gone
            memory = process_memory(self._root, one.pid, self._page_size)
            if memory.start_ticks != one.start_ticks:
                raise gone
        except KernelInterfaceError as error:
            return error.gap(PROCESS)
        return memory


def _since(before: ProcessMemory, now: ProcessMemory, most: int | None) -> ProcessMemory:
    """What a process takes now, with KSM's counters of before.

    The footprint must not be too small: what the process does not hold any more may be in the zero page by now, and
    nothing is sure to have left that. But a page is in one place only, so all of it comes to no more than the VM can
    have, or had.
    """
    merging, zero = before.ksm_merging, before.ksm_zero
    if zero is not None:
        had, holds = before.rss + before.swap, now.rss + now.swap
        highest = had + zero
        zero += max(0, had - holds)
        if most is not None:
            zero = min(zero, max(0, max(most, highest) - holds))
    return replace(now, ksm_merging=merging, ksm_zero=zero)
