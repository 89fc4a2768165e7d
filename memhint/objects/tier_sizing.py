"""What a slower tier of memory would give a host: records, and what VMs use. `planner/tier_sizing.py` is the rule."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from memhint.objects.domain import DomainObservation
from memhint.objects.ranges import Count, Size

AGE = 60.0  # seconds: what was not touched for so long is not active


class TierBound(StrEnum):
    """What keeps more VMs from fitting."""

    ACTIVE = "active"  # more would use more than half of DRAM
    SIZE = "size"  # DRAM and tier are full


@dataclass(frozen=True, slots=True)
class Load:
    """The VMs of a host. Bytes."""

    dram: Size  # for VMs: the pool without the host's reserve
    used: Size  # footprints
    active: Size  # touched within a minute, or of a VM of which that is not known
    vms: Count  # with a footprint
    read: Count  # of which it is known


@dataclass(frozen=True, slots=True)
class TierGain:
    """So many VMs like those of now would fit, on average. No fewer than without it: a tier need not be used."""

    tier: Size  # bytes that the host is given
    vms: float  # with it
    without: float
    bound: TierBound


@dataclass(frozen=True, slots=True)
class TierSizing:
    """A host's VMs, and what tiers of several sizes would give them."""

    load: Load
    gains: tuple[TierGain, ...]


def load_of(domains: Sequence[DomainObservation], dram: int) -> Load | None:
    """The VMs that run; None where of none is known what it uses. One that was not read counts as if it used all.

    :param dram: bytes
    """
    used = active = vms = read = 0
    for one in domains:
        if one.process is None or not one.footprint:
            continue
        resting = _resting(one)
        vms += 1
        read += resting is not None
        used += one.footprint
        active += max(0, one.process.rss - (resting or 0))
    return Load(dram, used, active, vms, read) if read and dram > 0 else None


def _resting(one: DomainObservation) -> int | None:
    """Resident bytes that were not touched for a minute, in doubt fewer."""
    if one.active is None:
        return None
    known = [idle.bytes for idle in one.active.idle if idle.age >= AGE]
    return max(0, known[0] - one.active.error) if known else None
