"""The wish that somebody moves a VM away, to the planner."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from memhint.objects.ladder import Rung
from memhint.objects.lever import Action, LeverName
from memhint.objects.relief import Relief
from memhint.planner.levers.lever import Need, PlannedLever
from memhint.planner.relief.migration import whom_to_migrate


def _actions(relief: Relief, why: str) -> Iterable[Action]:
    if relief.migrate is not None:
        yield Action(LeverName.MIGRATION, relief.migrate, "another host", why)


def _ask(need: Need, relief: Relief) -> Relief:
    if Rung.MIGRATION not in need.rungs:
        return relief
    return replace(relief, migrate=whom_to_migrate(need.candidates, need.migrate))


MIGRATION = PlannedLever(name=LeverName.MIGRATION, ask=_ask, by_relief=_actions)
