"""Which VMs count in full, and by which ways nothing may be had from them. One pure function decides both."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from memhint.objects.domain import DomainFacts, DomainObservation
from memhint.objects.exclusion import FORBIDS, Excluded, Exclusion, Way
from memhint.objects.guest import GuestKernel
from memhint.objects.policy import Policy, QosClass

FIRST_WITH_REPORTING = (5, 7)  # Linux: free page reporting came with 5.7
_RELEASE = re.compile(r"([0-9]{1,3})\.([0-9]{1,4})")
# What libosinfo and guest agents call systems whose balloon driver cannot report free pages.
_NO_REPORTING = re.compile(r"microsoft\.com/|mswindows|windows|(free|open|net)bsd|solaris|apple\.com/|macos")

_FACTS: tuple[tuple[Exclusion, Callable[[DomainFacts], bool], str], ...] = (
    (Exclusion.HUGEPAGES, lambda facts: facts.hugepages, "backed by explicit huge pages"),
    (Exclusion.LOCKED, lambda facts: facts.locked, "its memory is locked"),
    (Exclusion.REALTIME, lambda facts: facts.realtime, "its CPUs are scheduled in real time"),
    (Exclusion.PASSTHROUGH, lambda facts: facts.vfio, "a passed-through device pins its memory"),
    (Exclusion.CONFIDENTIAL, lambda facts: facts.confidential, "its memory is encrypted"),
    (Exclusion.FILE_BACKED, lambda facts: facts.file_backed, "its memory is a file"),
)


def exclusions(domain: DomainObservation, policy: Policy, nodes: int = 1) -> tuple[Excluded, ...]:
    """Every reason for which this VM counts in full, strongest first; empty where its forecast counts.

    What the guest says of its system can only add a reason, never take one away.

    :param nodes: the host's NUMA nodes that have memory
    """
    facts = domain.facts
    found = [Excluded(reason, text) for reason, holds, text in _FACTS if holds(facts)]
    if facts.numa_strict and nodes > 1:
        names = ", ".join(str(node) for node in facts.numa_nodes) or "that are chosen at its start"
        found.append(Excluded(Exclusion.NUMA_BOUND, f"bound to memory of NUMA nodes {names}"))
    if not facts.balloon:
        found.append(Excluded(Exclusion.NO_BALLOON, "it has no balloon device to give memory back through"))
    system = unsupported(facts, domain.guest_kernel)
    if system is not None:
        found.append(Excluded(Exclusion.UNSUPPORTED, system))
    if not policy.overcommit:
        origin = policy.settings["overcommit"].origin
        found.append(Excluded(Exclusion.OPT_OUT, f"overcommit=deny ({origin})"))
    if policy.qos is QosClass.GUARANTEED:
        origin = policy.settings["class"].origin
        found.append(Excluded(Exclusion.GUARANTEED, f"class=guaranteed ({origin})"))
    return tuple(found)


def unsupported(facts: DomainFacts, kernel: GuestKernel | None) -> str | None:
    """Why the guest's system cannot report free pages; None where it can, or where nobody said what it is."""
    for said, who in ((facts.os, "its definition"), (kernel.os if kernel else None, "its guest agent")):
        if said is not None and _NO_REPORTING.search(said.lower()):
            return f"{said} by {who}: the system cannot report free pages"
    release = kernel.release if kernel else None
    match = _RELEASE.match(release) if release else None
    if match is not None and (int(match[1]), int(match[2])) < FIRST_WITH_REPORTING:
        return f"Linux {release}: free page reporting came with 5.7"
    return None


def forbidden(excluded: Iterable[Excluded], way: Way) -> Excluded | None:
    """The strongest reason for which a way may not be taken; None where it may."""
    return next((one for one in excluded if way in FORBIDS[one.reason]), None)
