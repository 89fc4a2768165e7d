"""A host's key numbers of one moment, for histories."""

from __future__ import annotations

from dataclasses import dataclass

from memhint.objects.report import Report


@dataclass(frozen=True, slots=True)
class HistoryPoint:
    """A host's key numbers at one moment, or the worst of a span that begins there.

    Bytes; ``at`` in unix seconds, ``psi`` in percent, None where unknown. ``span`` is in seconds, 0 for one cycle. The
    worst is the least of what is left (headroom, nominal_headroom, available) and the most of what is used.
    """

    at: float
    headroom: int
    nominal_headroom: int
    assigned: int
    footprint: int
    resident: int
    available: int
    swap_used: int
    psi: float | None
    span: int = 0


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
