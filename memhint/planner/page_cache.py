"""What of the page cache is VMs' memory: what the kernel calls available, and nothing gets in time."""

from __future__ import annotations

from collections.abc import Iterable

from memhint.objects.domain import DomainObservation
from memhint.objects.host import HostObservation, NumaNode


def own_files(domains: Iterable[DomainObservation]) -> int:
    """Bytes that VMs have in memory that is a file on a disk, and so page cache."""
    files = (one.process for one in domains if one.facts.file_backed and not one.facts.hugepages)
    return sum(process.rss for process in files if process)


def left_of(node: NumaNode, files: int) -> int:
    """What is free of a node, and what is page cache and no VM's memory. Bytes.

    :param files: what `own_files` says: on which node it lies is not known, so each goes without all of it
    """
    return node.free + max(0, node.file - files)


def available(host: HostObservation, domains: Iterable[DomainObservation]) -> int:
    """What the kernel calls available, less what VMs have of it. Bytes."""
    return max(0, host.memory.available - own_files(domains))
