"""Which VMs count in full, and by which ways nothing may be had from them. One pure function decides both."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from operator import attrgetter

from memhint.objects.domain import DomainObservation
from memhint.objects.exclusion import FORBIDS, Excluded, Exclusion, Mechanism
from memhint.objects.guest import GuestKernel
from memhint.objects.policy import Policy, QosClass

FIRST_WITH_REPORTING = (5, 7)  # Linux: free page reporting came with 5.7
_RELEASE = re.compile(r"([0-9]{1,3})\.([0-9]{1,4})")
# What libosinfo and guest agents call systems whose balloon driver cannot report free pages.
_NO_REPORTING = re.compile(r"microsoft\.com/|mswindows|windows|(free|open|net)bsd|solaris|apple\.com/|macos")

_FACTS = {
    "hugepages": Excluded(Exclusion.HUGEPAGES, "backed by explicit huge pages, as a whole or in part"),
    "locked": Excluded(Exclusion.LOCKED, "its memory is locked"),
    "realtime": Excluded(Exclusion.REALTIME, "its CPUs are scheduled in real time"),
    "vfio": Excluded(Exclusion.PASSTHROUGH, "a passed-through device pins its memory"),
    "confidential": Excluded(Exclusion.CONFIDENTIAL, "its memory is encrypted"),
    # A file is shared memory, too (`virt/domain_xml.py`). What of it went to swap no process tells: the kernel's VmSwap
    # leaves it out, so its footprint would shrink by it and raise the headroom.
    "shared_memory": Excluded(Exclusion.FILE_BACKED, "its memory is a file, or shared: nothing tells what is in swap"),
}
_holding = attrgetter(*_FACTS)
_NO_BALLOON = Excluded(Exclusion.NO_BALLOON, "it has no balloon device to give memory back through")


def exclusions(domain: DomainObservation, policy: Policy, nodes: int = 1) -> tuple[Excluded, ...]:
    """Every reason for which this VM counts in full, strongest first; empty where its forecast counts.

    What the guest says of its system can only add a reason, never take one away.

    :param nodes: the host's NUMA nodes that have memory
    """
    facts = domain.facts
    held = _holding(facts)
    found: list[Excluded] = []
    if True in held:  # seldom, and asked for every VM in every cycle
        found += [excluded for excluded, holds in zip(_FACTS.values(), held, strict=True) if holds]
    if facts.numa_strict and nodes > 1:
        names = ", ".join(str(node) for node in facts.numa_nodes) or "that are chosen at its start"
        found.append(Excluded(Exclusion.NUMA_BOUND, f"bound to memory of NUMA nodes {names}"))
    if not facts.balloon:
        found.append(_NO_BALLOON)
    kernel = domain.guest_kernel
    if facts.os or kernel:
        system = unsupported(facts.os, kernel.os if kernel else None, kernel.release if kernel else None)
        if system is not None:
            found.append(Excluded(Exclusion.UNSUPPORTED, system))
    if not policy.overcommit:
        origin = policy.settings["overcommit"].origin
        found.append(Excluded(Exclusion.OPT_OUT, f"overcommit=deny ({origin})"))
    if policy.qos is QosClass.GUARANTEED:
        origin = policy.settings["class"].origin
        found.append(Excluded(Exclusion.GUARANTEED, f"class=guaranteed ({origin})"))
    return tuple(found)


@lru_cache(maxsize=4096)  # few systems, asked for in every cycle; the bound is for guests that make names up
def unsupported(defined: str | None, told: str | None, release: str | None) -> str | None:
    """Why a guest's system cannot report free pages; None where it can, or where the system is not known.

    :param defined: the system by the VM's definition
    :param told: the system by the guest's own word, and ``release`` its kernel's
    """
    for said, who in ((defined, "its definition"), (told, "its guest agent")):
        if said is not None and _NO_REPORTING.search(said.lower()):
            return f"{said} by {who}: the system cannot report free pages"
    match = _RELEASE.match(release) if release else None
    if match is not None and (int(match[1]), int(match[2])) < FIRST_WITH_REPORTING:
        return f"Linux {release}: free page reporting came with 5.7"
    return None


def outdated(kernel: GuestKernel) -> GuestKernel | None:
    """What still holds of a guest's word of its kernel once that is too old: None, mostly.

    A system that cannot report free pages stays, so that its VM counts in full: a guest agent that falls silent must
    not raise what is promised.
    """
    if unsupported(None, kernel.os, kernel.release) is None:
        return None
    return GuestKernel(kernel.at, release=kernel.release, os=kernel.os)


def forbidden(excluded: Iterable[Excluded], mechanism: Mechanism) -> Excluded | None:
    """The strongest reason for which a mechanism may not be used; None where it may."""
    return next((one for one in excluded if mechanism in FORBIDS[one.reason]), None)
