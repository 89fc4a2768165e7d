"""Which levers leave holes in huge pages, which khugepaged would fill again."""

from __future__ import annotations

from memhint.objects.lever import LeverName
from memhint.objects.levers import place_of
from memhint.objects.pieces import HUGE_ORDER
from memhint.planner.plan import Planned


def pieces(planned: Planned) -> tuple[LeverName, ...]:
    """Merging, recycling, and reporting of blocks below a huge page."""
    relief = planned.plan.relief
    finer = any(one.order is not None and one.order < HUGE_ORDER for one in relief.tuning.values())
    found = {
        LeverName.DEDUP: bool(planned.dedup.members),
        LeverName.RECYCLER: bool(relief.recycler),
        LeverName.REPORTING: finer,
    }
    return tuple(sorted((name for name, there in found.items() if there), key=place_of))
