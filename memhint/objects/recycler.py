"""The page recycler of a QEMU: threads that give back single pages that the guest marked free (doc/recycler.md)."""

from __future__ import annotations

from dataclasses import dataclass

from memhint.objects.ranges import Count

LEAVE_ORDER = 9
"""The order of free blocks that QEMU leaves to free page reporting unless it is told otherwise."""


@dataclass(frozen=True, slots=True)
class RecyclerPace:
    """How fast a QEMU looks through the guest's marks, and what it gives back."""

    workers: int  # threads; none pauses
    period_ms: int  # from one look to the next
    max_bytes: int  # bytes per second; 0 is no bound
    leave_order: int = LEAVE_ORDER  # free blocks of this order are left to free page reporting; 0 leaves none

    def __str__(self) -> str:
        """The one spelling that a mark keeps, and that `pace_of` reads."""
        return f"{self.workers} {self.period_ms} {self.max_bytes} {self.leave_order}"


def pace_of(text: str) -> RecyclerPace:
    """The pace that a mark kept.

    :raises ValueError: it is none
    """
    workers, period_ms, max_bytes, *leave = (int(word) for word in text.split(" "))
    if len(leave) > 1:
        raise ValueError(f"{text!r} is no pace")
    return RecyclerPace(workers, period_ms, max_bytes, *leave)  # agents before the order was set kept three numbers


@dataclass(frozen=True, slots=True)
class RecyclerCounters:
    """What a QEMU's recycler did, from the moment its balloon device was made. Never migrated. Sizes in bytes."""

    negotiated: bool  # the guest's driver has taken it up
    workers: Count  # threads that are at work now
    pieces: Count  # of the table that the guest registered
    described: Count  # memory that the table describes
    passes: Count  # looks through the table
    recycled: Count  # given back; a page counts each time
    lost: Count  # the guest took it first
    failed: Count  # the host refused
    left: Count  # whole blocks left to free page reporting in the last look
    inhibited: str | None = None  # why nothing is given back now: QEMU's word
