"""The wish that somebody moves a VM away, to the planner."""

from __future__ import annotations

from collections.abc import Iterable

from memhint.objects.lever import Action, LeverName
from memhint.objects.relief import Relief
from memhint.planner.levers.lever import PlannedLever


def _actions(relief: Relief, why: str) -> Iterable[Action]:
    if relief.migrate is not None:
        yield Action(LeverName.MIGRATION, relief.migrate, "another host", why)


MIGRATION = PlannedLever(name=LeverName.MIGRATION, by_relief=_actions)
