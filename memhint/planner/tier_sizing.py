"""What a slower tier of memory would give a host, by the rule that operators size such tiers with. It is in no promise.

The rule is that of memory tiering in vSphere: what VMs use within a minute is at most half of DRAM, and the tier is at
most as large as DRAM. What VMs use is `objects.tier_sizing.load_of`.
"""

from __future__ import annotations

from collections.abc import Sequence

from memhint.objects.domain import DomainObservation
from memhint.objects.tier_sizing import Load, TierBound, TierGain, TierSizing, load_of

MOST_ACTIVE = 0.5  # of DRAM
MOST_TIER = 1.0  # of DRAM: what is larger counts for nothing
OFFERED = (0.25, 0.5, 1.0)  # of DRAM: tiers that are told of unasked


def tier_gain(load: Load, tier: int) -> TierGain:
    """What a tier of so many bytes would give."""
    by_size = (load.dram + min(tier, load.dram * MOST_TIER)) / load.used
    by_active = load.dram * MOST_ACTIVE / max(1, load.active)
    without = load.dram / load.used
    bound = TierBound.ACTIVE if by_active < by_size else TierBound.SIZE
    return TierGain(tier, load.vms * max(without, min(by_size, by_active)), load.vms * without, bound)


def tier_sizing(domains: Sequence[DomainObservation], dram: int, tier: int | None = None) -> TierSizing | None:
    """What a tier of so many bytes would give, or of a quarter, a half and all of DRAM's size.

    None where of no VM it is known what it uses.
    """
    load = load_of(domains, dram)
    return None if load is None else sizing_of(load, tier)


def sizing_of(load: Load, tier: int | None = None) -> TierSizing:
    """The same, where it is known what the VMs use."""
    sizes = [int(load.dram * part) for part in OFFERED] if tier is None else [tier]
    return TierSizing(load, tuple(tier_gain(load, size) for size in sizes))
