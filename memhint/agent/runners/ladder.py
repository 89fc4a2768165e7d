"""What the pressure ladder shows beside the levers that it pulls: itself, and whom somebody else should move away."""

from __future__ import annotations

from collections.abc import Iterable

from memhint.agent.figures import ladder_of, migration
from memhint.agent.runners.runner import LeverRunner
from memhint.agent.view import HostView
from memhint.objects.lever import LeverName, LeverState
from memhint.planner.plan import Planned


class LadderShown(LeverRunner):
    """Pulls nothing: memhint migrates no VM itself."""

    names = (LeverName.MIGRATION, LeverName.LADDER)

    def pull(self, view: HostView, planned: Planned) -> None:
        """Nothing to pull."""

    def states(self, view: HostView, planned: Planned) -> Iterable[LeverState]:
        """The ladder as a lever of the host, and the wish that a VM be migrated."""
        for one in view.seen.domains:
            yield from migration(one, planned.plan)
        yield ladder_of(planned.plan)
