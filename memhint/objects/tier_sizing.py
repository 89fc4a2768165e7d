"""What a slower tier of memory would give a host: the records. How they come about is `planner/tier_sizing.py`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from memhint.objects.ranges import Count, Size


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
