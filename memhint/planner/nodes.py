"""What NUMA nodes leave, where VMs may have memory of certain nodes only.

Such a VM is killed when its node is full, however much is free elsewhere. The kernel may put a new VM's memory on any
node, so nothing more is promised than the tightest of these nodes could still take.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from memhint.objects.domain import DomainFacts, DomainObservation
from memhint.objects.host import HostObservation
from memhint.objects.plan import Demand, DemandReason
from memhint.planner.page_cache import left_of, own_files
from memhint.planner.settings import PlannerSettings


def nodes_of(host: HostObservation) -> int:
    """How many NUMA nodes have memory."""
    return sum(node.total > 0 for node in host.numa)


def scarcest(host: HostObservation, domains: Sequence[DomainObservation]) -> float | None:
    """The least percent of its memory that a node has left that VMs are bound to; None where none is bound.

    Pools of huge pages are left out, as they are of the host's: those VMs have no memory of them.
    """
    if nodes_of(host) < 2:
        return None
    with_memory = {node.node: node for node in host.numa if node.pool > 0}
    bound: set[int] = set()
    for domain in domains:
        if domain.facts.numa_strict and domain.process is not None:
            bound |= set(domain.facts.numa_nodes) & with_memory.keys() or with_memory.keys()
    files = own_files(domains)
    nodes = [with_memory[node] for node in bound]
    return min((100.0 * left_of(one, files) / one.pool for one in nodes), default=None)


def weighs_on(facts: DomainFacts, more: int, nodes: Collection[int]) -> Iterator[tuple[int, int]]:
    """The nodes that a bound VM may come to take ``more`` bytes of, and at most how many of each.

    :param nodes: those that have memory; one that is bound to none of them may have it anywhere
    """
    most = dict(zip(facts.numa_nodes, facts.numa_most, strict=False))
    for node in [node for node in facts.numa_nodes if node in nodes] or nodes:
        yield node, min(more, most.get(node, more))


def tightest(
    host: HostObservation,
    domains: Sequence[DomainObservation],
    demands: Sequence[Demand],
    settings: PlannerSettings,
    merged: int = 0,
) -> int | None:
    """The least room of the nodes that VMs are bound to, in bytes and possibly negative; None where none is bound.

    room = free + page cache − node reserve − Σ(D − RSS) of the VMs that may come to have memory there − what is merged,
    where the reserve is no less than what the kernel itself keeps free. Page cache that is a VM's memory is none: on
    which node it lies is not known, so each goes without all of it. Nor is it known where merged pages come back.

    A VM that is bound to several nodes weighs on each with all that may come to lie there: what comes next may be all
    of one cell's, and a cell is bound to its own nodes. One that is bound to none weighs on every node: the kernel may
    put all of it there. While the nodes cannot be read, or what the kernel keeps of them, there is no room.

    :param merged: bytes that unmerging would bring back
    """
    if host.unread("numa") and any(domain.facts.numa_strict for domain in domains):
        return 0
    with_memory = {node.node: node for node in host.numa if node.total > 0}
    if len(with_memory) < 2:
        return None
    coming: dict[int, int] = {}
    anywhere = 0
    for domain, demand in zip(domains, demands, strict=True):
        if demand.reason is DemandReason.OUTSIDE:
            continue
        facts = domain.facts
        more = max(0, demand.demand - (domain.process.rss if domain.process else 0))
        if not facts.numa_strict:
            anywhere += more
            continue
        for node, taken in weighs_on(facts, more, with_memory):
            coming[node] = coming.get(node, 0) + taken
    if coming and host.unread("watermarks"):
        return 0
    files = own_files(domains)
    anywhere += merged
    rooms = [
        left_of(one, files) - max(settings.node_reserve_of(one.pool), one.kept) - taken - anywhere
        for one, taken in ((with_memory[node], taken) for node, taken in coming.items())
    ]
    return min(rooms, default=None)
