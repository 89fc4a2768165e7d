"""Which nodes of the host a definition binds a VM's memory to, and how much of it may lie on each."""

from __future__ import annotations

from dataclasses import dataclass
from xml.etree import ElementTree

from memhint.virt.xml_words import amount, nodeset

_BINDING = ("strict", "restrictive")


@dataclass(frozen=True, slots=True)
class NumaBinding:
    """What ``<numatune>`` says, of all of the VM."""

    strict: bool = False
    nodes: tuple[int, ...] = ()
    """Those that it names; none where libvirt chooses them at the start."""
    most: tuple[int, ...] = ()
    """Bytes that may come to lie on each of these nodes; none where the definition does not tell."""


def numa_binding(root: ElementTree.Element, memory: int) -> NumaBinding:
    """What binds guest memory to nodes of the host: strict is libvirt's default of a mode that is not said.

    A restrictive one binds by the cpuset of the VM's cgroup, where strict binds by QEMU's memory policy. All of a cell
    may lie on any of its nodes.

    :param memory: bytes of the VM
    """
    tune = root.find("numatune")
    if tune is None:
        return NumaBinding()
    bound = [one for one in [*tune.iterfind("memory"), *tune.iterfind("memnode")] if _binds(one)]
    cells = {
        one.get("id") or str(place): amount(one.get("memory", ""), one.get("unit", "KiB"))
        for place, one in enumerate(root.iterfind("cpu/numa/cell"))
    }
    sizes = {one.get("cellid"): cells.get(one.get("cellid") or "") for one in tune.iterfind("memnode")}
    most: dict[int, int] = {}
    known = True
    for one in bound:
        if one.tag == "memnode":
            size = sizes[one.get("cellid")]
        else:  # what no cell has of its own, memory that was plugged in among it
            size = None if None in sizes.values() else max(0, memory - sum(filter(None, sizes.values())))
        known = known and size is not None
        for node in nodeset(one.get("nodeset") or ""):
            most[node] = most.get(node, 0) + (size or 0)
    nodes = tuple(sorted(most))
    return NumaBinding(bool(bound), nodes, tuple(most[node] for node in nodes) if known else ())


def _binds(element: ElementTree.Element) -> bool:
    return element.get("mode", "strict") in _BINDING
