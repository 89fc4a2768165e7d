"""What NUMA nodes still owe to VMs that may have memory of certain nodes only."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from memhint.objects.domain import DomainObservation
from memhint.planner.demand import on_pools
from memhint.planner.nodes import weighs_on


def owed(domains: Sequence[DomainObservation], nodes: Collection[int], overhead: int) -> dict[int, int]:
    """By node, the bytes that bound VMs may still come to take there: Σ(A − RSS), as `nodes.py` spreads it.

    A and not D: it is asked before something else is put there, and nobody foresees when such a VM wants the rest. One
    that could not be read, or does not run, has nothing yet.

    :param nodes: those that have memory
    :param overhead: bytes that QEMU itself takes, per VM
    """
    found = dict.fromkeys(nodes, 0)
    for one in domains:
        facts, pools = one.facts, on_pools(one, overhead)
        if not facts.numa_strict or 0 < facts.memory <= pools:
            continue
        more = max(0, facts.memory - pools + overhead - (one.process.rss if one.process else 0))
        for node, taken in weighs_on(facts, more, nodes):
            found[node] += taken
    return found
