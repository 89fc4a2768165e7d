"""From whom memory is taken in pieces smaller than a huge page, and which levers do it."""

from __future__ import annotations

from memhint.objects.lever import LeverName
from memhint.objects.relief import Relief
from memhint.planner.host_cycle import HostPlans
from memhint.planner.levers import PLANNED


def taken_from(relief: Relief, plans: HostPlans) -> frozenset[str]:
    """UUIDs of the VMs whose huge pages are split now, by whatever takes less than one of them at a time."""
    return frozenset(uuid for lever in PLANNED for uuid in lever.takes(relief, plans))


def taken_of_use(relief: Relief, plans: HostPlans) -> frozenset[str]:
    """UUIDs of those of them of which more than what is free in the guest is taken."""
    return frozenset(uuid for lever in PLANNED if not lever.only_free for uuid in lever.takes(relief, plans))


def pieces(relief: Relief, plans: HostPlans) -> tuple[LeverName, ...]:
    """The levers that leave holes now which khugepaged would fill again."""
    return tuple(lever.name for lever in PLANNED if lever.leaves_holes and lever.takes(relief, plans))
