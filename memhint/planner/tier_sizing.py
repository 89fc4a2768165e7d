"""What a slower tier of memory would give a host, by the rule that operators size such tiers with. It is in no promise.

The rule is that of memory tiering in vSphere: what VMs use within a minute is at most half of DRAM, and the tier is at
most as large as DRAM. A VM of which nothing was read counts as if it used all that it has.
"""

from __future__ import annotations

from collections.abc import Sequence

from memhint.objects.domain import DomainObservation
from memhint.objects.tier_sizing import Load, TierBound, TierGain, TierSizing

AGE = 60.0  # seconds: what was not touched for so long is not active
MOST_ACTIVE = 0.5  # of DRAM
MOST_TIER = 1.0  # of DRAM: what is larger counts for nothing
OFFERED = (0.25, 0.5, 1.0)  # of DRAM: tiers that are told of unasked


def load_of(domains: Sequence[DomainObservation], dram: int) -> Load | None:
    """The VMs that run; None where of none is known what it uses.

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
    if load is None:
        return None
    sizes = [int(dram * part) for part in OFFERED] if tier is None else [tier]
    return TierSizing(load, tuple(tier_gain(load, size) for size in sizes))


def _resting(one: DomainObservation) -> int | None:
    """Resident bytes that were not touched for a minute, in doubt fewer."""
    if one.active is None:
        return None
    known = [idle.bytes for idle in one.active.idle if idle.age >= AGE]
    return max(0, known[0] - one.active.error) if known else None
