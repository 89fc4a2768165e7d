"""The page recycler of a QEMU: threads that give back single pages that the guest marked free (doc/recycler.md)."""

from __future__ import annotations

from dataclasses import dataclass

from memhint.objects.ranges import Count


@dataclass(frozen=True, slots=True)
class RecyclerPace:
    """How fast a QEMU looks through the guest's marks, and gives back."""

    workers: int  # threads; none pauses
    period_ms: int  # from one look to the next
    max_bytes: int  # bytes per second; 0 is no bound

    def __str__(self) -> str:
        """The one spelling that a mark keeps, and that `pace_of` reads."""
        return f"{self.workers} {self.period_ms} {self.max_bytes}"


def pace_of(text: str) -> RecyclerPace:
    """The pace that a mark kept.

    :raises ValueError: it is none
    """
    workers, period_ms, max_bytes = (int(word) for word in text.split(" "))
    return RecyclerPace(workers, period_ms, max_bytes)


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
