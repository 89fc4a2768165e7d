"""Why a VM's memory cannot be counted on to come back, and by which mechanisms it cannot."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from memhint.objects.words import Word


class Mechanism(StrEnum):
    """How memory that a VM has can be had from it. Levers are means to one of these."""

    RETURN = "return"  # the guest gives back what is free in it: page reporting, reclaiming its caches
    BALLOON = "balloon"  # the guest is made smaller for a time
    MERGE = "merge"  # equal pages become one
    SWAP = "swap"  # the host swaps it out


class Exclusion(Word):
    """One reason for which a VM counts in full. Strongest first."""

    HUGEPAGES = "hugepages"  # explicit huge pages: a pool of their own
    LOCKED = "locked"
    REALTIME = "realtime"
    PASSTHROUGH = "passthrough"  # VFIO, mdev, vDPA: a device may write to any page
    CONFIDENTIAL = "confidential"  # SEV, TDX, s390 protected
    FILE_BACKED = "file_backed"
    NUMA_BOUND = "numa_bound"  # may have memory of certain nodes only
    NO_BALLOON = "no_balloon"
    UNSUPPORTED = "unsupported"  # the guest's system cannot report free pages
    OPT_OUT = "opt_out"  # overcommit=deny
    GUARANTEED = "guaranteed"  # class=guaranteed


_EVERY = frozenset(Mechanism)

FORBIDS: Mapping[Exclusion, frozenset[Mechanism]] = {
    Exclusion.HUGEPAGES: _EVERY,
    Exclusion.LOCKED: _EVERY,  # QEMU refuses to discard what is locked
    Exclusion.REALTIME: _EVERY,  # it could come back, and a fault would then break the VM's promise of time
    Exclusion.PASSTHROUGH: _EVERY,  # pinned for the VM's life
    Exclusion.CONFIDENTIAL: _EVERY,
    Exclusion.FILE_BACKED: frozenset({Mechanism.MERGE, Mechanism.SWAP}),  # its pages belong to a file
    Exclusion.NUMA_BOUND: frozenset({Mechanism.MERGE}),  # a merged page lies on one node only
    Exclusion.NO_BALLOON: frozenset({Mechanism.RETURN, Mechanism.BALLOON}),
    Exclusion.UNSUPPORTED: frozenset({Mechanism.RETURN}),
    Exclusion.OPT_OUT: frozenset(),  # counts in full; what its other keys allow may still be done
    Exclusion.GUARANTEED: frozenset({Mechanism.BALLOON, Mechanism.SWAP}),
}


@dataclass(frozen=True, slots=True)
class Excluded:
    """One reason that holds for one VM, in words."""

    reason: Exclusion
    detail: str
