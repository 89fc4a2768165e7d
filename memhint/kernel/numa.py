"""NUMA: the memory of each node, and the nodes that the pages of a process lie on."""

from __future__ import annotations

import re
from collections.abc import Iterator

from memhint.kernel.errors import InterfaceMalformed, InterfaceMissing, ProcessGone
from memhint.kernel.fields import colons, number
from memhint.kernel.root import PAGE_SIZE, KernelRoot
from memhint.objects.host import NumaNode
from memhint.objects.units import KIB

_DIRECTORY = "sys/devices/system/node"
_NODE = re.compile(r"node(\d{1,9})", re.ASCII)
_PAGES_ON = re.compile(r"N(\d{1,9})=(\d{1,20})", re.ASCII)
_ADDRESS = re.compile(r"[0-9a-f]{1,16}", re.ASCII)
_CPU_THREAD = "CPU "
_PROCESSOR = 36  # field 39 of /proc/PID/stat; the state, field 3, is the first one behind the name
_MOST_CPUS = 1 << 16
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


def cpus_by_node(root: KernelRoot, pid: int) -> dict[int, int]:
    """How many virtual CPUs of a QEMU ran last on each node. QEMU names their threads ``CPU n/KVM``.

    :raises InterfaceMissing: when the kernel is built without NUMA
    :raises ProcessGone: when the process ended
    :raises KernelInterfaceError: when a file cannot be read or makes no sense
    """
    node_of: dict[int, int] = {}
    for name in root.names(_DIRECTORY):
        if match := _NODE.fullmatch(name):
            relative = f"{_DIRECTORY}/{name}/cpulist"
            for cpu in _cpus(root.read_text(relative).strip(), root.path(relative)):
                node_of[cpu] = int(match[1])
    found: dict[int, int] = {}
    for thread in root.names(f"proc/{pid}/task"):
        try:
            stat = root.read_text(f"proc/{pid}/task/{thread}/stat")
        except (InterfaceMissing, ProcessGone):
            continue  # a thread that ended meanwhile
        name, _, rest = stat.partition("(")[2].rpartition(")")
        if not name.startswith(_CPU_THREAD):
            continue
        words = rest.split()
        path = root.path(f"proc/{pid}/task/{thread}/stat")
        if len(words) <= _PROCESSOR:
            raise InterfaceMalformed(path, f"{len(words)} fields behind the name")
        node = node_of.get(number(words[_PROCESSOR], path))
        if node is not None:
            found[node] = found.get(node, 0) + 1
    return found


def _cpus(text: str, path: str) -> Iterator[int]:
    """The numbers of a list such as ``0-3,8``; a node without processors has an empty one."""
    for part in text.split(",") if text else ():
        first, _, last = part.partition("-")
        begin, end = number(first, path), number(last or first, path)
        if end >= _MOST_CPUS:
            raise InterfaceMalformed(path, f"{text[:80]!r} is no list of processors")
        yield from range(begin, end + 1)


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
