"""What one request asks of a host's memory, read once for all hosts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from memhint_nova.keys import PREFIX, value_of
from memhint_nova.reason import Reason

# Flavors and images whose VMs keep all of their memory: locked, encrypted, or pinned for a device. NUMA nodes, huge
# pages and pinned CPUs show in the request's NUMA topology, passed-through devices in its PCI requests.
_TRUE = frozenset({"true", "yes", "1", "on", "t", "y"})
_EXCLUDING: Mapping[str, frozenset[str] | None] = {  # None: any value counts
    "hw:locked_memory": _TRUE,
    "hw:mem_encryption": _TRUE,
    "hw:pmem": None,
    "accel:device_profile": None,
}
_VGPU = re.compile(r"resources[^:]*:VGPU")  # in a group of its own too: resources1:VGPU
IMAGE_PROPERTIES = ("hw_locked_memory", "hw_mem_encryption")


@dataclass(frozen=True, slots=True)
class Wish:
    """MiB and times the host's memory. ``nominal_for``: why nominal accounting must have room too."""

    need: int
    nominal_for: Reason | None = None
    why: str = ""
    max_ratio: float | None = None
    class_ratio: float | None = None
    faults: tuple[str, ...] = ()  # values of the flavor that are none


def wish(
    need: int, extra_specs: Mapping[str, str], class_ratios: Mapping[str, float], beyond_flavor: str | None = None
) -> Wish:
    """Read a flavor of ``need`` MiB.

    :param class_ratios: the most for each class, 0 for no limit
    :param beyond_flavor: what else keeps the VM's memory from coming back, in words
    """
    faults = []
    values = {"class": "burstable", "overcommit": "allow", "max_ratio": ""}
    if any(name.startswith(PREFIX) for name in extra_specs):
        for name in values:
            values[name], fault = value_of(extra_specs, name)
            if fault is not None:
                faults.append(fault)
    excluding = beyond_flavor or excluded_by(extra_specs)
    nominal_for, why = None, ""
    if values["overcommit"] == "deny":
        nominal_for, why = Reason.OPT_OUT, "the flavor opts out of overcommit"
    elif excluding is not None:
        nominal_for, why = Reason.EXCLUDED_FLAVOR, excluding
    return Wish(
        need=need,
        nominal_for=nominal_for,
        why=why,
        max_ratio=float(values["max_ratio"]) if values["max_ratio"] else None,
        class_ratio=class_ratios[values["class"]] or None,
        faults=tuple(faults),
    )


def excluded_by(extra_specs: Mapping[str, str]) -> str | None:
    """What of a flavor keeps a VM's memory from ever coming back, in words; None where nothing does."""
    for name, values in _EXCLUDING.items():
        said = extra_specs.get(name)
        if said is not None and (values is None or str(said).strip().lower() in values):
            return f"the flavor says {name}={said!r}"
    for name, said in extra_specs.items():
        if _VGPU.fullmatch(name):
            return f"the flavor says {name}={said!r}"
    return None
