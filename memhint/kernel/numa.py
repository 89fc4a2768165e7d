"""NUMA: the memory of each node, and the nodes that the pages of a process lie on."""

from __future__ import annotations

import re

from memhint.kernel.errors import InterfaceMalformed
from memhint.kernel.fields import colons, number
from memhint.kernel.root import PAGE_SIZE, KernelRoot
from memhint.objects.host import NumaNode
from memhint.objects.units import KIB

_DIRECTORY = "sys/devices/system/node"
_NODE = re.compile(r"node(\d{1,9})", re.ASCII)
_PAGES_ON = re.compile(r"N(\d{1,9})=(\d{1,20})", re.ASCII)
_ADDRESS = re.compile(r"[0-9a-f]{1,16}", re.ASCII)
_KERNEL_PAGE_SIZE = "kernelpagesize_kB="


def numa_nodes(root: KernelRoot) -> tuple[NumaNode, ...]:
    """The nodes by number, in bytes; a node without memory has a total of 0.

    :raises InterfaceMissing: when the kernel is built without NUMA
    :raises KernelInterfaceError: when a node cannot be read or makes no sense
    """
    numbers = sorted(int(match[1]) for name in root.names(_DIRECTORY) if (match := _NODE.fullmatch(name)))
    return tuple(_node(root, node) for node in numbers)


def _node(root: KernelRoot, node: int) -> NumaNode:
    relative = f"{_DIRECTORY}/node{node}/meminfo"
    fields = colons(root.read_text(relative), root.path(relative))
    lists = [f"Node {node} {name}(file)" for name in ("Active", "Inactive")]
    cache = sum(fields.kib(name) for name in lists if name in fields.values)
    return NumaNode(node, fields.kib(f"Node {node} MemTotal"), fields.kib(f"Node {node} MemFree"), cache)


def pages_by_node(text: str, page_size: int = PAGE_SIZE, path: str = "numa_maps") -> dict[int, int]:
    """Bytes on each node, from the text of a numa_maps file; ``page_size`` is for lines that do not name theirs.

    Transparent huge pages are counted by the kernel in base pages, explicit huge pages in their own size.

    :raises InterfaceMalformed: when a line is no line of a numa_maps file
    """
    nodes: dict[int, int] = {}
    for line in text.split("\n"):
        words = line.split()
        if not words:
            continue
        if len(words) < 2 or not _ADDRESS.fullmatch(words[0]):
            raise InterfaceMalformed(path, f"{line[:80]!r} is no mapping")
        size = page_size
        on_nodes: list[tuple[int, int]] = []
        # the policy comes second; the kernel escapes spaces in file names, so a name cannot look like a count
        for word in words[2:]:
            if match := _PAGES_ON.fullmatch(word):
                on_nodes.append((int(match[1]), int(match[2])))
            elif word.startswith(_KERNEL_PAGE_SIZE):
                size = number(word.removeprefix(_KERNEL_PAGE_SIZE), path) * KIB
        for node, pages in on_nodes:
            nodes[node] = nodes.get(node, 0) + pages * size
    return nodes
