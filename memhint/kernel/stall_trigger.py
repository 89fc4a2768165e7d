"""A descriptor that polls as ready when a cgroup's processes wait for their memory: a trigger of the kernel's PSI."""

from __future__ import annotations

import os

from memhint.kernel.errors import InterfaceMissing, InterfaceUnreadable, WriteRejected
from memhint.kernel.root import KernelRoot

_WINDOW_US = 1_000_000  # the kernel looks ten times in it, and tells at most once


def stall_trigger(root: KernelRoot, cgroup: str, seconds: float) -> int:
    """An open descriptor that polls with POLLPRI once any process waited so long within a second, and POLLERR when the
    cgroup is gone.

    :param seconds: below 1
    :raises InterfaceMissing: when the kernel has no triggers here (Linux 5.2)
    :raises KernelInterfaceError: when it takes none
    """
    path = root.path(f"{cgroup}/memory.pressure")
    try:
        fd = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError as error:
        raise InterfaceMissing(path, "no pressure of this cgroup") from error
    except OSError as error:
        raise InterfaceUnreadable(path, os.strerror(error.errno or 0)) from error
    try:
        os.write(fd, f"some {int(seconds * 1e6)} {_WINDOW_US}\0".encode())
    except OSError as error:
        os.close(fd)
        raise WriteRejected(path, f"no trigger: {os.strerror(error.errno or 0)}") from error
    return fd
