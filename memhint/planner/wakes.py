"""Which VMs wake: much of what they have in swap comes back within a second."""

from __future__ import annotations

from dataclasses import dataclass

from memhint.objects.units import MIB

WINDOW = 1.0  # seconds
LEAST = MIB
PART = 2048  # of what the VM has; sixteen times what may come back of a VM that rests (planner/cold.py)


@dataclass(frozen=True, slots=True)
class Asleep:
    """One process as it was when a window began. Bytes, and monotonic seconds."""

    has: int  # resident and in swap
    swap: int
    read: int  # from swap, of the whole host since boot
    since: float


def next_asleep(before: Asleep, swap: int, read: int, now: float) -> tuple[Asleep, bool]:
    """The same one look later, and whether it woke.

    What fell out of swap without being read from there was given up, as what a guest reports free, and not used.

    :param swap: bytes that it has in swap now
    :param read: bytes that the host has read from swap since boot
    """
    back = min(before.swap - swap, read - before.read)
    woke = back >= max(LEAST, before.has // PART)
    if woke or swap > before.swap or now >= before.since + WINDOW:
        return Asleep(before.has, swap, read, now), woke
    return before, False
