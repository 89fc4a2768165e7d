"""Who is in which partition of KSM, on kernels that have them; and whether several projects merge at the same time.

A partition's number follows from the name of the group that it is for, so that an agent which begins anew comes to the
same. Where two groups come to one number, one of them takes another: a number is never shared.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import blake2s

from memhint.objects.host import Ksm

EVERYBODY = "all"
"""The group of all VMs, where projects may be crossed."""
_NONE: Mapping[str, int] = {}


@dataclass(frozen=True, slots=True)
class Apart:
    """How far KSM keeps those who merge from each other."""

    partitions: bool = False  # it has partitions: each group of VMs gets its own
    several: bool = False  # several projects may merge at the same time
    otherwise: str = field(default="allow_cross_tenant would share it", compare=False)  # what would let them


def apart(ksm: Ksm | None, *, empty_only: bool, empty_across: bool) -> Apart:
    """What this host's KSM can do.

    The zero page belongs to no partition. So where nothing but empty pages is merged, partitions keep nobody apart.

    :param empty_only: only empty pages are to be merged, with the zero page
    :param empty_across: VMs of several projects may have the zero page in the place of pages at the same time
    """
    if ksm is None:
        return Apart()
    if not empty_only:
        return Apart(ksm.partitions, ksm.partitions)
    several = empty_across and ksm.empty_only is not None
    return Apart(ksm.partitions, several, "zero_pages_across_projects would let all have the zero page")


def group_of(uuid: str, project: str | None, allow_cross_tenant: bool) -> str:
    """The name of the group that a VM may merge with: its project's, or itself where it is nobody's."""
    if allow_cross_tenant:
        return EVERYBODY
    return f"vm {uuid}" if project is None else f"project {project}"


def numbers(groups: Mapping[str, str], held: Mapping[str, int], others: Mapping[str, int] = _NONE) -> dict[str, int]:
    """The partition of each VM, by UUID: from 1 up, and no number for two groups.

    A group keeps the number that most of its VMs have already: to leave it, a VM's pages have to be separated.

    :param groups: the group of each VM, by UUID
    :param held: the partitions that VMs were put into before, by UUID
    :param others: those that VMs are in without having been put there: none of these but a group's own is given to it
    """
    holders: dict[int, Counter[str]] = {}
    for uuid, number in held.items():
        # One of which it is not known whose it is keeps its number from everybody.
        holders.setdefault(number, Counter())[groups.get(uuid, f"? {uuid}")] += 1
    kept: dict[str, int] = {}
    for number, counts in sorted(holders.items()):
        most = min(counts, key=lambda group: (-counts[group], group))
        if most not in kept or counts[most] > holders[kept[most]][most]:
            kept[most] = number
    taken = {number: "" for number in holders}
    for uuid, number in others.items():
        group = groups.get(uuid, "")
        taken[number] = group if taken.get(number, group) == group else ""
    for group in sorted(set(groups.values()) - kept.keys()):
        kept[group] = next(number for number in _candidates(group) if taken.get(number, group) == group)
        taken[kept[group]] = ""
    return {uuid: kept[group] for uuid, group in groups.items()}


def _candidates(group: str) -> Iterable[int]:
    attempt = 0
    while True:
        found = int.from_bytes(blake2s(f"{attempt} {group}".encode(), digest_size=4).digest())
        if found:
            yield found
        attempt += 1
