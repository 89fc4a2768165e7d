"""The huge pages and nodes of a host in a few figures. Made of a report, and of nothing else."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from memhint.objects.host import HugeActivity
from memhint.objects.ranges import Size
from memhint.objects.report import Report


@dataclass(frozen=True, slots=True)
class HugePages:
    """How well huge pages and near nodes back the VMs. None is unknown, never 0."""

    coverage: float | None  # of the VMs' resident memory, 0 to 1: the part that huge pages back
    remote: float | None  # of the VMs' memory, 0 to 1: the part that their CPUs fetch from another node
    fast: float | None  # of the VMs' memory, 0 to 1: the part on the fastest nodes; None where all nodes are alike
    free: Mapping[int, Size]  # by node: bytes that are free in blocks from which a huge page can be had
    activity: HugeActivity | None


def huge_pages(report: Report) -> HugePages:
    """Of the VMs that were read: each by its size."""
    deep = [one.observation.deep for one in report.domains if one.observation.deep is not None]
    return HugePages(
        coverage=_mean((one.huge_coverage(one.rss), one.rss) for one in deep),
        remote=_mean((one.remote, sum(one.by_node.values())) for one in deep),
        fast=_mean((one.on_fast(report.observation.tiers), sum(one.by_node.values())) for one in deep),
        free=report.observation.free_huge,
        activity=report.observation.huge,
    )


def _mean(weighed: Iterable[tuple[float | None, int]]) -> float | None:
    known = [(value, weight) for value, weight in weighed if value is not None]
    whole = sum(weight for _, weight in known)
    return sum(value * weight for value, weight in known) / whole if whole else None
