"""How much may be read ahead of a VM: what the host can give, and what the VM's own cgroup can take.

Beyond a limit of its cgroup the kernel would send other memory of the same VM to swap for what is read.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from memhint.kernel.errors import KernelInterfaceError
from memhint.kernel.memcg import cgroup_memory
from memhint.kernel.process_cgroup import home
from memhint.kernel.root import KernelRoot


def wake_room(root: KernelRoot, pid: int, host: Callable[[], int]) -> Callable[[], int]:
    """Bytes, as of each call.

    :param host: what the host can give away and keep its reserve
    """
    try:
        cgroup = home(root, pid).path
    except KernelInterfaceError:
        return host  # no cgroup, no limit

    def room() -> int:
        found = host()
        with suppress(KernelInterfaceError):  # the VM is on its way out
            found = min(found, cgroup_memory(root, cgroup).available)
        return found

    return room
