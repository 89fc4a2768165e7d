"""Which nodes of the host a definition binds a VM's memory to, and how much of it may lie on each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from xml.etree import ElementTree

from memhint.virt.xml_words import amount, nodeset

_BINDING = ("strict", "restrictive")
_PLUGGED = ("dimm", "virtio-mem")  # models of memory devices that are in the VM's memory


@dataclass(frozen=True, slots=True)
class _Part:
    """Some of a VM's memory that has a policy of its own. Bytes; None where the definition does not tell."""

    size: int | None
    mode: str
    nodeset: str


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

    A restrictive one binds by the cpuset of the VM's cgroup, where strict binds by QEMU's memory policy. All of a part
    may lie on any of its nodes. Memory that was plugged in goes by its own nodes where it names some, else by its
    cell's, else by those of the whole, as libvirt tells QEMU.

    :param memory: bytes of the VM
    """
    whole = root.find("numatune/memory")
    cells = {one.get("cellid") or "": one for one in root.iterfind("numatune/memnode")}
    parts = [*_of_cells(root, cells), *_plugged(root, cells, whole)]
    if whole is not None:
        sizes = [one.size for one in parts]
        left = None if None in sizes else max(0, memory - sum(filter(None, sizes)))
        parts.append(_Part(left, _mode(whole), whole.get("nodeset") or ""))
    bound = [one for one in parts if one.mode in _BINDING]
    most: dict[int, int] = {}
    for one in bound:
        for node in nodeset(one.nodeset):
            most[node] = most.get(node, 0) + (one.size or 0)
    nodes = tuple(sorted(most))
    known = all(one.size is not None for one in bound)
    return NumaBinding(bool(bound), nodes, tuple(most[node] for node in nodes) if known else ())


def _of_cells(root: ElementTree.Element, cells: Mapping[str, ElementTree.Element]) -> Iterator[_Part]:
    """What the cells that have nodes of their own began with."""
    sizes = {
        one.get("id") or str(place): amount(one.get("memory", ""), one.get("unit", "KiB"))
        for place, one in enumerate(root.iterfind("cpu/numa/cell"))
    }
    for cell, policy in cells.items():
        yield _Part(sizes.get(cell), _mode(policy), policy.get("nodeset") or "")


def _plugged(
    root: ElementTree.Element, cells: Mapping[str, ElementTree.Element], whole: ElementTree.Element | None
) -> Iterator[_Part]:
    """Memory devices that do not go by the policy of the whole."""
    for device in root.iterfind("devices/memory"):
        if device.get("model") not in _PLUGGED:
            continue
        own, cell = device.findtext("source/nodemask"), cells.get((device.findtext("target/node") or "").strip())
        policy = whole if cell is None else cell
        if own is None and cell is None:
            continue
        size = device.find("target/size")
        told = None if size is None else amount(size.text or "", size.get("unit", "KiB"))
        words = own if own is not None else (policy.get("nodeset") if policy is not None else None)
        yield _Part(told, _mode(policy), (words or "").strip())


def _mode(policy: ElementTree.Element | None) -> str:
    return "strict" if policy is None else policy.get("mode", "strict")
