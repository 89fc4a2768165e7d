"""/proc/PID: what one process costs the host, and whether it still is the process that was meant."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from memhint.kernel.errors import InterfaceMalformed, InterfaceMissing, KernelInterfaceError, ProcessGone
from memhint.kernel.fields import columns, number, page_counter, signed_number
from memhint.kernel.root import PAGE_SIZE, READ_AT_MOST, KernelRoot
from memhint.objects.domain import ProcessMemory
from memhint.objects.units import KIB

_COMM_LENGTH = 15
_TICKS = os.sysconf("SC_CLK_TCK")  # a second
# Fields 10, 14 and 22 of /proc/PID/stat; the state, field 3, is the first behind the name.
_MINFLT = 7
_UTIME = 11  # in user mode and as a guest; the next one is that in the kernel
_STARTTIME = 19


def process_memory(root: KernelRoot, pid: int, page_size: int = PAGE_SIZE) -> ProcessMemory:
    """What a process holds, in bytes, from three short files: ``process_held`` and KSM's counters.

    KSM counters that this kernel does not have are None. Newer kernels take the process's mmap lock to show them: while
    QEMU unmerges its memory this waits, so no thread that others wait for should call it.

    :raises ProcessGone: when the process ended, or has no memory of its own any more
    :raises KernelInterfaceError: when a file cannot be read or makes no sense
    """
    merging, zero = ksm_pages(root, pid)
    # the last read: that it succeeds says that nothing was missing above because the process had ended
    return replace(
        process_held(root, pid),
        ksm_merging=None if merging is None else merging * page_size,
        ksm_zero=None if zero is None else zero * page_size,
    )


def process_held(root: KernelRoot, pid: int) -> ProcessMemory:
    """The same without KSM's counters, from two files that take no mmap lock: for threads that others wait for.

    VmRSS is as exact as the kernel's counter: from 6.2 to about 6.15 it can be off by some pages for every CPU.

    :raises ProcessGone: when the process ended, or has no memory of its own any more
    :raises KernelInterfaceError: when a file cannot be read or makes no sense
    """
    status = read_process_file(root, pid, "status")
    path = root.path(f"proc/{pid}/status")
    rss, swap = _memory_kib(status, ("VmRSS", "VmSwap"), path)
    words, stat = _stat(root, pid)
    return ProcessMemory(
        pid=pid,
        start_ticks=number(words[_STARTTIME], stat),
        rss=rss,
        swap=swap,
        cpu=(number(words[_UTIME], stat) + number(words[_UTIME + 1], stat)) / _TICKS,
        faults=number(words[_MINFLT], stat),
        small_pages=_small_pages(status, path),
    )


def process_swap(root: KernelRoot, pid: int) -> int:
    """Bytes that a process has in swap: they fall when it touches them, whoever has read them from there.

    As exact as the kernel's counter: see ``process_memory``.

    :raises ProcessGone: when the process ended, or has no memory of its own any more
    :raises KernelInterfaceError: when the file cannot be read or makes no sense
    """
    return _memory_kib(read_process_file(root, pid, "status"), ("VmSwap",), root.path(f"proc/{pid}/status"))[0]


def pid_of(instance: str) -> int:
    """The process id in a ``ProcessMemory.instance``.

    :raises ValueError: when it is none
    """
    return int(instance.partition(":")[0])


def instance_runs(root: KernelRoot, instance: str) -> bool:
    """True while the process of a ``ProcessMemory.instance`` runs: a pid that was given away is another process.

    :raises KernelInterfaceError: when /proc cannot be read
    """
    pid, _, start = instance.partition(":")
    if not pid.isascii() or not pid.isdigit():
        return False
    try:
        return str(_start_ticks(root, int(pid))) == start
    except ProcessGone:
        return False


def own_instance(root: KernelRoot) -> str:
    """This process as ``ProcessMemory.instance`` names one; of what runs nowhere where /proc does not show it."""
    pid = os.getpid()
    try:
        return f"{pid}:{_start_ticks(root, pid)}"
    except KernelInterfaceError:
        return f"{pid}:"


def oom_score_adj(root: KernelRoot, pid: int) -> int:
    """What the kernel adds to a process's badness when it looks for one to kill: -1000 (never) to 1000 (first).

    :raises ProcessGone: when the process ended
    :raises KernelInterfaceError: when it cannot be read or makes no sense
    """
    path = root.path(f"proc/{pid}/oom_score_adj")
    value = signed_number(read_process_file(root, pid, "oom_score_adj").strip(), path)
    if not -1000 <= value <= 1000:
        raise InterfaceMalformed(path, f"{value} is beyond 1000")
    return value


def pid_from_file(path: Path) -> int:
    """The pid that a pid file, such as libvirt's NAME.pid, holds.

    :raises InterfaceMissing: when there is no such file
    :raises KernelInterfaceError: when it cannot be read or holds no pid
    """
    pid = KernelRoot(path.parent).read_int(path.name)
    if pid < 1:
        raise InterfaceMalformed(str(path), f"{pid} is not a pid")
    return pid


def process_is(root: KernelRoot, pid: int, uuid: str) -> bool:
    """True when the process was started for the VM of this uuid: one word of its command line is the uuid.

    Guards against a pid that the kernel gave to another process meanwhile; a process that ended is not the VM's. Every
    kernel takes the process's mmap lock to show its command line: see ``process_memory``.

    :raises KernelInterfaceError: when the command line cannot be read
    """
    try:
        return bool(uuid) and uuid in read_process_file(root, pid, "cmdline").split("\0")
    except ProcessGone:
        return False


def find_by_comm(root: KernelRoot, names: frozenset[str]) -> dict[str, int]:
    """The lowest pid of each of these program names that runs; the kernel keeps 15 characters of a name.

    :raises KernelInterfaceError: when /proc cannot be listed
    """
    wanted = {name[:_COMM_LENGTH]: name for name in names}
    found: dict[str, int] = {}
    for pid in sorted(int(entry) for entry in root.names("proc") if entry.isascii() and entry.isdigit()):
        try:
            comm = program_name(root, pid)
        except KernelInterfaceError:
            continue  # it ended between the listing and the look
        if comm in wanted:
            found.setdefault(wanted[comm], pid)
    return found


def program_name(root: KernelRoot, pid: int) -> str:
    """What the kernel calls a process: the name of its program, of 15 characters at most, unless it chose another.

    :raises ProcessGone: when the process ended
    :raises KernelInterfaceError: when it cannot be read
    """
    return read_process_file(root, pid, "comm").rstrip("\n")


def read_process_file(root: KernelRoot, pid: int, name: str, limit: int = READ_AT_MOST) -> str:
    """The text of one file of a process.

    :raises ProcessGone: when the process ended
    :raises KernelInterfaceError: as KernelRoot.read_text
    """
    try:
        return root.read_text(f"proc/{pid}/{name}", limit)
    except InterfaceMissing as error:
        raise _gone_or(root, pid, error) from error


def process_lines(root: KernelRoot, pid: int, name: str) -> Iterator[str]:
    """The lines of one file of a process.

    :raises ProcessGone: while iterating, when the process ended
    :raises KernelInterfaceError: while iterating, as KernelRoot.lines
    """
    try:
        yield from root.lines(f"proc/{pid}/{name}")
    except InterfaceMissing as error:
        raise _gone_or(root, pid, error) from error


def _gone_or(root: KernelRoot, pid: int, error: InterfaceMissing) -> KernelInterfaceError:
    return error if root.exists(f"proc/{pid}") else ProcessGone(error.path, "the process ended")


def _memory_kib(status: str, names: tuple[str, ...], path: str) -> list[int]:
    if "\nVmRSS:" not in status and "\nThreads:" in status:
        raise ProcessGone(path, "it has no memory: it is ending, or a kernel thread")
    return [_status_kib(status, name, path) for name in names]


def _status_kib(status: str, name: str, path: str) -> int:
    value = _status_value(status, name, " kB\n")
    if value is None:
        raise InterfaceMalformed(path, f"no {name}")
    return number(value, path) * KIB


def _small_pages(status: str, path: str) -> bool | None:
    """Whether PR_SET_THP_DISABLE holds; None before Linux 5.0, which does not say."""
    value = _status_value(status, "THP_enabled", "\n")
    # A kernel without transparent huge pages says 0 of every process; the lever says then that it has none.
    return None if value is None else number(value, path) == 0


def _status_value(status: str, name: str, end: str) -> str | None:
    """What a line says, empty where it does not end so; None where there is no such line."""
    # found, not split into fields: of sixty lines few are wanted. The kernel escapes line ends in the name above.
    start = status.find(f"\n{name}:")
    if start < 0:
        return None
    start += len(name) + 2
    stop = status.find(end, start)
    return status[start:stop].strip() if stop >= 0 else ""


def _start_ticks(root: KernelRoot, pid: int) -> int:
    words, path = _stat(root, pid)
    return number(words[_STARTTIME], path)


def _stat(root: KernelRoot, pid: int) -> tuple[list[str], str]:
    """The fields of /proc/PID/stat behind the name, and its path."""
    # the name in parentheses can hold spaces and parentheses itself, so count from the last one
    words = read_process_file(root, pid, "stat").rpartition(")")[2].split(None, _STARTTIME + 1)
    path = root.path(f"proc/{pid}/stat")
    if len(words) <= _STARTTIME:
        raise InterfaceMalformed(path, f"{len(words)} fields behind the name")
    return words, path


def ksm_pages(root: KernelRoot, pid: int) -> tuple[int | None, int | None]:
    """Pages merged and pages replaced by the zero page; ksm_stat has both since 6.6, one file had the first before.

    It may wait for the process's mmap lock: see ``process_memory``.

    :raises ProcessGone: when the process ended
    :raises KernelInterfaceError: when a file cannot be read or makes no sense
    """
    merging = zero = None
    path = root.path(f"proc/{pid}/ksm_stat")
    stat = _ksm_text(root, pid, "ksm_stat")
    if stat is not None:
        values = columns(stat, path).values
        merging, zero = values.get("ksm_merging_pages"), values.get("ksm_zero_pages")
    if merging is None:
        merging = _ksm_text(root, pid, "ksm_merging_pages")
    return (
        None if merging is None else page_counter(merging, path),
        None if zero is None else page_counter(zero, path),
    )


def _ksm_text(root: KernelRoot, pid: int, name: str) -> str | None:
    relative = f"proc/{pid}/{name}"
    try:
        text = root.read_text(relative).strip()
    except InterfaceMissing:
        return None
    if not text:
        raise ProcessGone(root.path(relative), "it has no memory any more")
    return text
