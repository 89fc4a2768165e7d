"""On which NUMA nodes a guest's memory lies, and on which it may."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from memhint.kernel.errors import InterfaceMissing, ProcessGone
from memhint.kernel.guest_ram import Span, read_guest_ram
from memhint.kernel.move_pages import PageMover
from memhint.kernel.numa import cpus_may_run_on, memory_may_lie_on, policies_by_start
from memhint.kernel.process import read_process_file
from memhint.kernel.root import PAGE_SIZE, KernelRoot
from memhint.kernel.thp import HUGE_PAGE
from memhint.objects.heat import NodeRange
from memhint.objects.units import MIB

_SAMPLES = 8  # pages of a block
_STEP = HUGE_PAGE // _SAMPLES + PAGE_SIZE  # from one of them to the next
_AT_ONCE = 1 << 16  # pages of one call
_NUMA_MAPS_AT_MOST = 32 * MIB


@dataclass(frozen=True, slots=True)
class Bounds:
    """Where a guest's memory is in its QEMU, and the nodes that it may be moved to."""

    spans: tuple[Span, ...]  # of whole blocks of 2 MiB
    nodes: frozenset[int]
    home: frozenset[int]  # where it may be gathered: every virtual CPU may run there, and it was not spread


def read_bounds(root: KernelRoot, pid: int) -> Bounds:
    """By cpuset and by the memory policy of each mapping. Walks page tables twice: about 20 ms per GiB.

    What libvirt binds, prefers or interleaves (``<numatune>``) is such a policy, or a cpuset, or both: the nodes that
    it names are the only ones. A guest whose pieces are bound to different nodes may be moved nowhere.

    :raises ProcessGone: when the process ended
    :raises InterfaceMissing: when the kernel is built without NUMA
    :raises KernelInterfaceError: when a file cannot be read or makes no sense
    """
    spans = read_guest_ram(root, pid).spans
    text = read_process_file(root, pid, "numa_maps", limit=_NUMA_MAPS_AT_MOST)
    policies = policies_by_start(text, root.path(f"proc/{pid}/numa_maps"))
    if not policies:
        raise ProcessGone(root.path(f"proc/{pid}/numa_maps"), "the process ended")
    nodes, chosen = memory_may_lie_on(root, pid), False
    for span in spans:
        named = policies.get(span.start, frozenset())  # mapped since: another look will tell
        if named is not None:
            nodes, chosen = nodes & named, True
    try:
        home = frozenset() if chosen else nodes & cpus_may_run_on(root, pid)
    except InterfaceMissing:
        home = frozenset()
    whole = (Span(-(-one.start // HUGE_PAGE) * HUGE_PAGE, one.end // HUGE_PAGE * HUGE_PAGE) for one in spans)
    return Bounds(tuple(one for one in whole if one.start < one.end), nodes, home)


def where(mover: PageMover, spans: Sequence[Span]) -> Iterator[NodeRange]:
    """Where each block lies that has memory, by eight of its pages. A block whose pages lie on several nodes, as those
    of interleaved memory do, is in the runs of each that has a quarter of them.

    :raises KernelInterfaceError: when the process ended
    """
    runs: dict[int, NodeRange] = {}
    for start, end in _windows(spans):
        # not at the same place of each block: pages that are dealt out by turns would all be of one node
        pages = array("Q", (at + _STEP * one for at in range(start, end, HUGE_PAGE) for one in range(_SAMPLES)))
        nodes = mover.nodes(pages)
        for place in range(0, len(pages), _SAMPLES):
            begin = pages[place]
            for node, count in _shares(nodes[place : place + _SAMPLES]):
                size, run = count * HUGE_PAGE // _SAMPLES, runs.get(node)
                if run is not None and run.end == begin:
                    runs[node] = NodeRange(run.start, begin + HUGE_PAGE, node, run.bytes + size)
                    continue
                if run is not None:
                    yield run
                runs[node] = NodeRange(begin, begin + HUGE_PAGE, node, size)
    yield from sorted(runs.values(), key=lambda run: run.start)


def _shares(nodes: Sequence[int]) -> list[tuple[int, int]]:
    """The nodes of a block and how many samples count for each: a few strays count for the node that has the most."""
    counts = Counter(node for node in nodes if node >= 0)
    if len(counts) < 2:
        return list(counts.items())
    most = max(sorted(counts), key=lambda node: counts[node])
    others = {node: count for node, count in counts.items() if node != most and 4 * count >= counts.total()}
    return sorted({**others, most: counts.total() - sum(others.values())}.items())


def _windows(spans: Sequence[Span]) -> Iterator[tuple[int, int]]:
    step = _AT_ONCE // _SAMPLES * HUGE_PAGE
    for span in spans:
        for start in range(span.start, span.end, step):
            yield start, min(start + step, span.end)
