"""What a lever is to the cycle, whatever it does inside: in the cycle, in a guest's conversation, or on a thread."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from memhint.agent.reclaim_store import ReclaimStore
from memhint.agent.view import HostSnapshot
from memhint.levers.lever import LeverContext
from memhint.objects.lever import LeverName, LeverState
from memhint.planner.plan import Planned

if TYPE_CHECKING:
    from memhint.agent.guests import Guests


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnerContext(LeverContext):
    """What runners are built of. A lever that has one of its own has its ``build`` there."""

    guests: Guests
    reclaims: ReclaimStore
    note: Callable[[LeverState], None]
    """Told of the outcome of every pull."""
    dry_run: bool


class LeverRunner(ABC):
    """One lever of a host. Nothing but ``undo`` and ``settle`` waits for a guest or a QEMU.

    The cycle pulls in the order in which it has its runners, and undoes in the reverse order.
    """

    names: tuple[LeverName, ...] = ()
    """The levers whose states it has."""
    share: float = 0.0
    """Of the time that undoing everything may take: what this lever needs where guests and QEMU are slow."""

    @abstractmethod
    def pull(self, view: HostSnapshot, planned: Planned) -> None:
        """Begin what the plan asks for, and give back what it does not ask for any more.

        Where libvirt has not said which VMs there are, nothing is asked of a VM, forgotten or given back. A lever of
        the host may hold still meanwhile, as merging does.
        """

    def states(self, view: HostSnapshot, planned: Planned) -> Iterable[LeverState]:
        """The lever's three fields for each VM, and for the host where it has some: as they are now."""
        return ()

    def undo(self, view: HostSnapshot, deadline: float) -> list[str]:
        """Put back what memhint changed, for at most ``deadline`` seconds; what could not be put back, in words."""
        return []

    def leave(self, deadline: float) -> None:
        """The agent stops before it has looked at its host: what must not go on with nobody there ends, and nothing is
        put back. Waits for that, for at most ``deadline`` seconds.
        """
        return

    def host_ends(self) -> None:
        """The whole host goes down in order; called before `undo`, which leaves what VMs are to start with again."""
        return

    def arrived(self) -> None:
        """A VM has started, or has more memory. Called by libvirt's event thread: must not wait."""
        return

    def redefined(self, uuid: str) -> None:
        """What a VM has for its next start may be another; any VM where ``uuid`` is empty. Called by libvirt's event
        thread: must not wait.
        """
        return

    def settle(self, timeout: float) -> bool:
        """Wait for a pass under way, ``timeout`` seconds at most; whether all that was begun has an outcome."""
        return True

    def inherit(self, before: Self) -> None:
        """Go on from an earlier runner of this process, which may have a pass under way."""
        return

    def close(self) -> None:
        """Begin nothing more. Nothing that hangs is waited for."""
        return
