"""What the planner knows of each lever, in the order in which a plan's actions are listed."""

from __future__ import annotations

from memhint.objects.lever import LeverName
from memhint.planner.levers.balloon import BALLOON
from memhint.planner.levers.cache import CACHE
from memhint.planner.levers.dedup import DEDUP
from memhint.planner.levers.lever import PlannedLever, with_next_report
from memhint.planner.levers.migration import MIGRATION
from memhint.planner.levers.recycler import RECYCLER
from memhint.planner.levers.reporting import REPORTING
from memhint.planner.levers.swap_out import SWAP_OUT
from memhint.planner.levers.thp import THP
from memhint.planner.levers.tiering import TIERING

PLANNED = (
    REPORTING,
    DEDUP,
    CACHE,
    RECYCLER,
    BALLOON,
    SWAP_OUT,
    THP,
    TIERING,
    PlannedLever(name=LeverName.QOS, foresee=with_next_report),
    MIGRATION,
)
"""Every lever of which it knows something."""
