"""A host's key numbers of one moment, for histories."""

from __future__ import annotations

from dataclasses import dataclass

from memhint.objects.ranges import Balance, Count, Moment, Percent, Size
from memhint.objects.report import Report


@dataclass(frozen=True, slots=True)
class HistoryPoint:
    """A host's key numbers at one moment, or the worst of a span that begins there.

    Bytes; ``at`` in unix seconds, ``psi`` in percent, None where unknown. ``span`` is in seconds, 0 for one cycle. The
    worst is the least of what is left (headroom, nominal_headroom, available) and the most of what is used.
    """

    at: Moment
    headroom: Balance
    nominal_headroom: Balance
    assigned: Count
    footprint: Count
    resident: Count
    available: Size
    swap_used: Size
    psi: Percent | None
    span: Count = 0


def point_of(report: Report) -> HistoryPoint:
    """The key numbers of a report."""
    capacity, memory, pressure = report.plan.capacity, report.observation.memory, report.observation.pressure
    return HistoryPoint(
        report.at,
        capacity.headroom,
        capacity.nominal_headroom(),
        capacity.assigned,
        capacity.footprint,
        capacity.resident,
        memory.available,
        memory.swap_used,
        pressure.some_avg10 if pressure else None,
    )
