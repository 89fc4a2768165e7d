"""/proc/PID/ksm_partition: with whom KSM may merge a process. Only kernels with the patches of kernel/, series host."""

from __future__ import annotations

import errno

from memhint.kernel.errors import InterfaceMalformed, InterfaceMissing, ProcessGone, WriteRejected
from memhint.kernel.fields import number
from memhint.kernel.process import read_process_file
from memhint.kernel.root import KernelRoot

DEFAULT = 0
"""The partition of every process that nobody put into another."""
_FILE = "ksm_partition"
_MOST = (1 << 32) - 1


class PartitionBusy(WriteRejected):
    """Pages of the process are merged with others in the partition that it is in."""


def has_partitions(root: KernelRoot) -> bool:
    """Whether this kernel's KSM can keep processes apart."""
    return root.exists(f"proc/self/{_FILE}")


def read_partition(root: KernelRoot, pid: int) -> int:
    """The partition of a process.

    :raises InterfaceMissing: when this kernel has none
    :raises ProcessGone: when the process ended, or has no memory of its own any more
    :raises KernelInterfaceError: when it cannot be read or makes no sense
    """
    path = root.path(f"proc/{pid}/{_FILE}")
    text = read_process_file(root, pid, _FILE).strip()
    if not text:
        raise ProcessGone(path, "it has no memory any more")
    found = number(text, path)
    if found > _MOST:
        raise InterfaceMalformed(path, f"{found} is no partition")
    return found


def set_partition(root: KernelRoot, pid: int, partition: int) -> None:
    """Put a process into a partition, and read it back. It waits for the end of KSM's current batch.

    :raises PartitionBusy: while pages of the process are merged; those merged with the zero page do not count
    :raises InterfaceMissing: when this kernel has none
    :raises ProcessGone: when the process ended
    :raises WriteRejected: when the kernel refuses it otherwise, as without CAP_SYS_RESOURCE
    :raises KernelInterfaceError: when it cannot be read back
    """
    relative = f"proc/{pid}/{_FILE}"
    try:
        root.write_text(relative, f"{partition}\n")
    except InterfaceMissing as error:
        raise error if root.exists(f"proc/{pid}") else ProcessGone(error.path, "the process ended") from error
    except WriteRejected as error:
        cause = error.__cause__
        if isinstance(cause, OSError) and cause.errno == errno.EBUSY:
            raise PartitionBusy(error.path, error.detail) from error
        raise
    found = read_partition(root, pid)
    if found != partition:
        raise WriteRejected(root.path(relative), f"wrote {partition}, reads {found}")
