"""What QEMU did with the memory that a guest reported, and how far the guest's own count agrees with it."""

from __future__ import annotations

from dataclasses import dataclass

from memhint.objects.ranges import Balance, Count, Moment
from memhint.objects.recycler import RecyclerCounters
from memhint.objects.words import Word

BALLOON_REPORTING = "balloon reporting"  # as a gap names it


@dataclass(frozen=True, slots=True)
class Ranges:
    """Ranges of guest memory: how many, and their bytes together."""

    ranges: Count
    bytes: Count


@dataclass(frozen=True, slots=True)
class BalloonReporting:
    """QEMU's counters of free page reporting, from the moment its balloon device was made. Never migrated.

    A range counts each time it is reported, so these only grow, and say nothing of what is resident now.
    """

    at: Moment  # unix seconds at which they were asked for; they are of that moment or a little later
    enabled: bool  # the device offers reporting
    negotiated: bool  # the guest's driver has taken it up
    reported: Ranges  # the sum of all that follow
    discarded: Ranges  # given back to the host
    skipped_inhibited: Ranges  # an assigned device, postcopy or a snapshot needs it
    skipped_poison: Ranges  # the guest wants its free pages to keep a pattern
    skipped_unaligned: Ranges  # not whole pages of the memory backend
    skipped_invalid: Ranges  # not the guest's RAM
    failed: Ranges  # the host refused
    last_report: Moment | None = None  # unix seconds, None: there was none
    recycler: RecyclerCounters | None = None  # None: the device does not recycle

    @property
    def skipped(self) -> int:
        """Bytes that were reported and kept, for any reason."""
        return self.reported.bytes - self.discarded.bytes


class Agreement(Word):
    """How a guest's count of what it reported compares with the host's."""

    PENDING = "pending"  # no two readings at moments that can be compared yet
    AGREES = "agrees"  # the guest claims no more than the host discarded
    OVERCLAIMS = "overclaims"  # the guest claims more: its word is not used


@dataclass(frozen=True, slots=True)
class ReportingCheck:
    """A guest's claim against what the host did, within one QEMU process and one boot of the guest.

    Bytes since the first observation of this pair; claim and discarded are of the last readings that were compared.
    """

    instance: str  # of the QEMU process
    boot_id: str | None  # the guest's word; None where it does not say
    since: Moment  # unix seconds
    at: Moment | None  # unix seconds of the host's reading that was compared last
    claimed: Balance  # reported by the guest, less what the host skipped and said so
    discarded: Count  # by the host
    observed: Balance | None  # by how much the process shrank since, negative where it grew; not bound to be the same
    agreement: Agreement

    @property
    def believed(self) -> int:
        """The part of the claim that the host confirms."""
        return max(0, min(self.claimed, self.discarded))

    @property
    def overclaims(self) -> bool:
        """Whether the guest has been found to claim more than the host discarded."""
        return self.agreement is Agreement.OVERCLAIMS
