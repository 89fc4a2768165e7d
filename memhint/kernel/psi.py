"""Pressure stall information: how long tasks waited for memory, on the machine or in one cgroup."""

from __future__ import annotations

import re

from memhint.kernel.errors import InterfaceMalformed
from memhint.kernel.fields import number
from memhint.kernel.root import KernelRoot
from memhint.objects.host import Pressure, Scope

_MACHINE = "proc/pressure/memory"
_LINE = re.compile(
    r"^(some|full) avg10=(\d{1,3}\.\d\d) avg60=(\d{1,3}\.\d\d) avg300=\d{1,3}\.\d\d total=(\d+)$",
    re.ASCII | re.MULTILINE,
)


def read_pressure(root: KernelRoot, cgroup: str | None = None) -> Pressure:
    """The pressure on memory; ``cgroup`` is the directory of a cgroup v2, None means the whole machine.

    :raises InterfaceMissing: when the kernel has no PSI or booted with it disabled (``psi=0``)
    :raises KernelInterfaceError: when it cannot be read or makes no sense
    """
    relative = _MACHINE if cgroup is None else f"{cgroup}/memory.pressure"
    path = root.path(relative)
    lines = {match[1]: match for match in _LINE.finditer(root.read_text(relative))}
    some, full = lines.get("some"), lines.get("full")
    if some is None or full is None:
        raise InterfaceMalformed(path, "not the two lines some and full")
    return Pressure(
        scope=Scope.MACHINE if cgroup is None else Scope.CGROUP,
        some_avg10=float(some[2]),
        some_avg60=float(some[3]),
        full_avg10=float(full[2]),
        some_total_us=number(some[4], path),
    )
