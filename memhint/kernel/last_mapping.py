"""Where the memory of a process ends: by /proc/PID/maps, for how far addresses go differs by machine and kernel."""

from __future__ import annotations

import re

from memhint.kernel.errors import InterfaceMalformed, ProcessGone
from memhint.kernel.process import process_lines
from memhint.kernel.root import KernelRoot

_MAPPING = re.compile(r"([0-9a-f]{1,16})-([0-9a-f]{1,16}) ")
_KERNELS = 1 << 63  # from here on addresses are the kernel's; the page [vsyscall] is there on x86-64


def last_mapping_end(root: KernelRoot, pid: int) -> int:
    """The address behind the last mapping of a process.

    :raises ProcessGone: when it has none
    :raises KernelInterfaceError: when the mappings cannot be read, or make no sense
    """
    path = root.path(f"proc/{pid}/maps")
    last = 0
    for line in process_lines(root, pid, "maps"):
        found = _MAPPING.match(line)
        if found is None:
            raise InterfaceMalformed(path, f"{line[:80]!r} is no mapping")
        start, end = int(found[1], 16), int(found[2], 16)
        if start < _KERNELS:
            last = max(last, min(end, _KERNELS))
    if not last:
        raise ProcessGone(path, "it has no mappings")
    return last
