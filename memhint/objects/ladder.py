"""The pressure ladder: what memhint does, and in which order, when a host runs short of memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from memhint.objects.ranges import Seconds
from memhint.objects.words import Word


class Rung(Word):
    """The rungs, lowest first: each costs somebody more than the one below."""

    ADMISSION = "admission"  # promise nothing more
    REPORTING = "reporting"  # idle guests report sooner, and at once
    CACHE = "cache"  # guests give back cold page cache and compact
    RECYCLER = "recycler"  # single free pages of idle guests are taken
    ORDER = "order"  # idle guests report smaller blocks
    DEDUP = "dedup"  # merge where the estimate pays
    BALLOON = "balloon"  # idle best-effort guests shrink to what they use, no further than their minimum
    SWAP_OUT = "swap_out"  # cold memory of idle guests goes to swap
    MIGRATION = "migration"  # somebody is asked to move a VM away


@dataclass(frozen=True, slots=True)
class Severity:
    """When a rung is entered, measured by the lowest one, and what it does to VMs."""

    pressure: float  # so many times the lowest rung's
    available: float  # the part of its available memory
    takes: bool = True  # something is taken from somebody: not without memory being scarce, whatever else is signalled
    mild: bool = False  # `[ladder] always` may do it to idle VMs of a calm host


SEVERITY: Mapping[Rung, Severity] = {
    Rung.ADMISSION: Severity(1.0, 1.0, takes=False),
    Rung.REPORTING: Severity(1.0, 1.0, takes=False, mild=True),
    Rung.CACHE: Severity(1.0, 1.0, mild=True),
    Rung.RECYCLER: Severity(1.0, 1.0, mild=True),
    Rung.ORDER: Severity(1.5, 0.9, mild=True),
    Rung.DEDUP: Severity(1.5, 0.9),
    Rung.BALLOON: Severity(2.0, 0.8),
    Rung.SWAP_OUT: Severity(3.0, 0.7, mild=True),
    Rung.MIGRATION: Severity(4.0, 0.6),
}


@dataclass(frozen=True, slots=True)
class EnteredRung:
    """One rung that is entered, as it is shown. Seconds; ``calm`` is None while a signal is not calm."""

    rung: Rung
    age: Seconds
    why: str
    calm: Seconds | None = None


@dataclass(frozen=True, slots=True)
class RungState:
    """One rung that is entered. Times in seconds of the planner's clock.

    ``calm_since`` is when every signal fell below this rung's exit; None while one has not.
    """

    rung: Rung
    entered_at: float
    why: str
    calm_since: float | None = None
