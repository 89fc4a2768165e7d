"""What on this host takes memory from VMs in pieces smaller than a huge page."""

from __future__ import annotations

from dataclasses import dataclass

from memhint.objects.lever import LeverName

PAGE = 4096  # bytes, of guests and of the hosts that memhint knows
HUGE_ORDER = 9  # of a huge page of 2 MiB: what guests report in such blocks leaves no hole
HUGE_PAGE = PAGE << HUGE_ORDER


@dataclass(frozen=True, slots=True)
class Pieces:
    """The levers that do so now, in the order of reports."""

    by: tuple[LeverName, ...] = ()
