"""What is wished of the host's kernel for huge pages: the rules for khugepaged and `defrag` (doc/thp.md)."""

from __future__ import annotations

from memhint.objects.huge_host import NO_WAITING, HugeHost
from memhint.planner.pieces import pieces
from memhint.planner.plan import Planned

QUICK = 1000  # milliseconds between two rounds of khugepaged while VMs get huge pages again


def huge_host(planned: Planned) -> HugeHost:
    """By the rules, from what the plan asks of VMs and what the host went through."""
    pressed, vain = bool(planned.state.ladder.entered), planned.state.compaction.vain
    return HugeHost(
        by=pieces(planned.plan.relief, planned.of_host),
        defrag=NO_WAITING if pressed or vain else None,
        # khugepaged fills holes, and moves pages to do so: not where either is short
        scan_sleep=QUICK if planned.plan.relief.thp and not vain else None,
    )
