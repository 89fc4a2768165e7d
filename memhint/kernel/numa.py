"""NUMA: the memory of each node, and the nodes that the pages of a process lie on."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from memhint.kernel.errors import InterfaceMalformed, InterfaceMissing, ProcessGone
from memhint.kernel.fields import colons, listed, number
from memhint.kernel.hugetlb import node_pools
from memhint.kernel.root import PAGE_SIZE, KernelRoot
from memhint.objects.host import NumaNode
from memhint.objects.units import KIB

_DIRECTORY = "sys/devices/system/node"
_NODE = re.compile(r"node(\d{1,9})", re.ASCII)
_PAGES_ON = re.compile(r"N(\d{1,9})=(\d{1,20})", re.ASCII)
_ZONE = re.compile(r"Node (\d{1,9}), zone", re.ASCII)
_ADDRESS = re.compile(r"[0-9a-f]{1,16}", re.ASCII)
_POLICY = re.compile(
    r"(default|local|prefer(?: \(many\))?|bind|(?:weighted )?interleave)(?:=[a-z|]+)?(?::([0-9,-]*))?(?= |$)", re.ASCII
)
_OWN_CHOICE = frozenset({"default", "local"})  # the kernel's: near the CPU that touches it first
_CPU_THREAD = "CPU "
_PROCESSOR = 36  # field 39 of /proc/PID/stat; the state, field 3, is the first one behind the name
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
    total, free = fields.kib(f"Node {node} MemTotal"), fields.kib(f"Node {node} MemFree")
    return NumaNode(node, total, free, cache, hugetlb=node_pools(root, node))


@dataclass(frozen=True, slots=True)
class Watermarks:
    """What the kernel keeps free of a node, in bytes: below ``low`` it has who wants memory make room first, up to
    ``high``.
    """

    low: int = 0
    high: int = 0


def watermarks(root: KernelRoot, page_size: int = PAGE_SIZE) -> dict[int, Watermarks]:
    """By node. Of zones that few may use it is what the kernel keeps there for those few, too.

    :raises KernelInterfaceError: when zoneinfo cannot be read or makes no sense; a kernel that has none keeps nothing
    """
    path, found = root.path("proc/zoneinfo"), dict[int, Watermarks]()
    node, low, high, most = 0, 0, 0, 0
    try:
        for line in root.lines("proc/zoneinfo"):
            match, words = _ZONE.match(line), line.split()
            if match is not None:
                node, low, high, most = int(match[1]), 0, 0, 0
            elif len(words) == 2 and words[0] == "low":
                low = number(words[1], path)
            elif len(words) == 2 and words[0] == "high":
                high = number(words[1], path)
            elif len(words) == 2 and words[0] == "managed":
                most = number(words[1], path)
            elif words[:1] == ["protection:"]:
                others = max((number(word.strip("(,)"), path) for word in words[1:]), default=0)
                before = found.get(node, Watermarks())
                one = Watermarks(page_size * min(low + others, most), page_size * min(high + others, most))
                found[node] = Watermarks(before.low + one.low, before.high + one.high)
    except InterfaceMissing:
        return {}
    return found


def cpus_by_node(root: KernelRoot, pid: int) -> dict[int, int]:
    """How many virtual CPUs of a QEMU ran last on each node. QEMU names their threads ``CPU n/KVM``.

    :raises InterfaceMissing: when the kernel is built without NUMA
    :raises ProcessGone: when the process ended
    :raises KernelInterfaceError: when a file cannot be read or makes no sense
    """
    node_of = _node_of_cpus(root)
    found: dict[int, int] = {}
    for thread, rest in _cpu_threads(root, pid):
        words = rest.split()
        path = root.path(f"proc/{pid}/task/{thread}/stat")
        if len(words) <= _PROCESSOR:
            raise InterfaceMalformed(path, f"{len(words)} fields behind the name")
        node = node_of.get(number(words[_PROCESSOR], path))
        if node is not None:
            found[node] = found.get(node, 0) + 1
    return found


def cpus_may_run_on(root: KernelRoot, pid: int) -> frozenset[int]:
    """The nodes on which each virtual CPU of a QEMU may run; none where its threads do not say what they are.

    :raises InterfaceMissing: when the kernel is built without NUMA
    :raises ProcessGone: when the process ended
    :raises KernelInterfaceError: when a file cannot be read or makes no sense
    """
    node_of = _node_of_cpus(root)
    found: frozenset[int] | None = None
    for thread, _ in _cpu_threads(root, pid):
        allowed = _status_list(root, f"proc/{pid}/task/{thread}/status", "Cpus_allowed_list:")
        nodes = frozenset(node_of[cpu] for cpu in allowed if cpu in node_of)
        found = nodes if found is None else found & nodes
    return found or frozenset()


def memory_may_lie_on(root: KernelRoot, pid: int) -> frozenset[int]:
    """The nodes that a process may have memory of, by its cpuset.

    :raises ProcessGone: when the process ended
    :raises KernelInterfaceError: when its status cannot be read, or does not say
    """
    return _status_list(root, f"proc/{pid}/status", "Mems_allowed_list:")


def _status_list(root: KernelRoot, relative: str, field: str) -> frozenset[int]:
    path = root.path(relative)
    for line in root.lines(relative):
        if line.startswith(field):
            return frozenset(listed(line.removeprefix(field).strip(), path))
    raise ProcessGone(path, f"no {field} it is ending")


def _node_of_cpus(root: KernelRoot) -> dict[int, int]:
    node_of: dict[int, int] = {}
    for name in root.names(_DIRECTORY):
        if match := _NODE.fullmatch(name):
            relative = f"{_DIRECTORY}/{name}/cpulist"
            for cpu in listed(root.read_text(relative).strip(), root.path(relative)):
                node_of[cpu] = int(match[1])
    return node_of


def _cpu_threads(root: KernelRoot, pid: int) -> Iterator[tuple[str, str]]:
    """Each virtual CPU's thread, and what /proc/PID/task/TID/stat has behind its name."""
    for thread in root.names(f"proc/{pid}/task"):
        try:
            stat = root.read_text(f"proc/{pid}/task/{thread}/stat")
        except (InterfaceMissing, ProcessGone):
            continue  # a thread that ended meanwhile
        name, _, rest = stat.partition("(")[2].rpartition(")")
        if name.startswith(_CPU_THREAD):
            yield thread, rest


def policies_by_start(text: str, path: str = "numa_maps") -> dict[int, frozenset[int] | None]:
    """The nodes that each mapping's own policy names, by its first address; None where it has none of its own.

    Names count as binding, be they preferred, interleaved or bound: somebody chose them. A policy that is not known
    names no node.

    :raises InterfaceMalformed: when a line is no line of a numa_maps file
    """
    found: dict[int, frozenset[int] | None] = {}
    for line in text.split("\n"):
        if not line:
            continue
        address, _, rest = line.partition(" ")
        if not _ADDRESS.fullmatch(address):
            raise InterfaceMalformed(path, f"{line[:80]!r} is no mapping")
        match = _POLICY.match(rest)
        nodes: frozenset[int] | None = frozenset()
        if match is not None and match[1] in _OWN_CHOICE:
            nodes = None
        elif match is not None:
            nodes = frozenset(listed(match[2] or "", path))
        found[int(address, 16)] = nodes
    return found


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
