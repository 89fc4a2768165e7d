"""Whether a host was large enough for what its guests did over some time: pure, of what was seen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bench.filled_host import NO_SWAP
from memhint.objects.units import mib


@dataclass(frozen=True, slots=True)
class MemorySample:
    """A host at one moment, in bytes."""

    in_use: int  # what it has to keep, in memory or in swap
    swap: int  # in swap now, of this host


def too_small(looks: Sequence[MemorySample], budget: int) -> str | None:
    """Why this host was too small, for people; None where all that was in use fitted into `budget` bytes.

    What went to swap earlier, as more guests were there, stays there until somebody reads it: swap that does not grow
    is no proof that all fits. So what is in use must fit with what is in swap, and nothing may go there.
    """
    if not looks:
        return None
    swapped, least = 0, looks[0].swap
    for look in looks:
        least = min(least, look.swap)  # what is read back leaves swap: what comes is held against the least before
        swapped = max(swapped, look.swap - least)
    if swapped > NO_SWAP:
        return f"{mib(swapped)} MiB went to swap"
    over = max(look.in_use for look in looks) - budget
    if over > 0:
        return f"{over / (1 << 20):.1f} MiB more are in use than the host has, {mib(looks[-1].swap)} MiB in swap"
    return None
