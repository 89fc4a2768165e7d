"""The two kinds of levers that `VmRunner` and `HostRunner` drive: of one VM after another, or of the whole host.

Reporting, cache and qos are neither: each has a runner of its own in `agent/runners/`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from memhint.kernel.host import read_memory
from memhint.objects.domain import DomainObservation
from memhint.objects.host import HostMemory, HostObservation
from memhint.objects.lever import LeverName, LeverState
from memhint.objects.ownership import Mark
from memhint.objects.policy import Policy
from memhint.objects.relief import Relief
from memhint.objects.verdict import Answer, Verdict

if TYPE_CHECKING:
    from oslo_config import cfg

    from memhint.kernel.clearings import Clearings
    from memhint.kernel.root import KernelRoot
    from memhint.levers.arrivals import Arrivals
    from memhint.objects.heat import HeatMap
    from memhint.objects.merge_ranges import RangeChoice
    from memhint.objects.ownership import Ledger
    from memhint.planner.plan import Planned
    from memhint.planner.settings import PlannerSettings
    from memhint.virt.caller import Caller

Stop = Callable[[], bool]
"""Asked within a pull that takes long: whether to end it early."""


TakeUp = Callable[[DomainObservation, Mark], Mark | None]
"""What a mark that a VM brought from another host means on this one; None where it cannot be memhint's."""


def as_it_is(domain: DomainObservation, mark: Mark) -> Mark:
    """A `TakeUp` of what is in the guest: its mark holds there as it held before."""
    return mark


@dataclass(frozen=True, slots=True, kw_only=True)
class LeverContext:
    """What levers are built of. The ``build`` of a lever takes of it what the lever needs; it is in the lever's module,
    or in that of its runner where it has one of its own.
    """

    conf: cfg.ConfigOpts
    """A lever turns its own options into plain settings."""
    settings: PlannerSettings
    root: KernelRoot
    boot: str
    """Of the host: marks of another boot are void."""
    ledger: Ledger
    caller: Caller
    """Of libvirt, on the connection that lists the VMs: for what waits for no VM."""
    slow: Caller
    """The same for what copies pages of a guest."""
    counting: Caller
    """The same for what waits where a VM is busy."""
    clearings: Clearings
    heat: Callable[[Collection[str]], Mapping[str, HeatMap]]
    """Which ranges these VMs use, by UUID; asked for, it is found out for the next time."""
    ranges: Callable[[str, str], RangeChoice | None]
    """What is worth merging of a VM's process, by UUID and instance."""
    arrivals: Arrivals
    """Of VMs and their memory."""

    def room(self) -> int:
        """Bytes that the host can give away and keep its reserve."""
        memory = self._memory()
        return memory.available - self.settings.reserve_of(memory.total)

    def available(self) -> int:
        """Bytes that the host has available now.

        :raises KernelInterfaceError: when that cannot be read
        """
        return self._memory().available

    def _memory(self) -> HostMemory:
        return read_memory(self.root, self.conf.host.memory_cgroup or None)


class VmLever(ABC):
    """One lever, for any VM. A pull may take its time: it is never called on the cycle's thread."""

    name: LeverName
    always_shown = False
    """Whether a report has its state for every VM; else for those that it was asked for last."""
    share = 0.15
    """Of the time that undoing everything may take: what giving back needs where guests and QEMU are slow."""
    travels: Collection[str] = ()
    """Knobs whose marks a VM brings along: what they say is given back here."""

    def wishes(self, relief: Relief) -> Mapping[str, int]:
        """What a plan asks of it: bytes by domain UUID."""
        return relief.of(self.name)

    def shown(self, domain: DomainObservation) -> bool:
        """Whether a report has its state for a VM that it was not asked for last."""
        return self.always_shown

    def knows(self, domains: Sequence[DomainObservation]) -> None:
        """What follows goes by these being all VMs of the host. Must not wait: a pass may be under way."""
        return

    @abstractmethod
    def state(self, domain: DomainObservation, policy: Policy, wish: int | None, verdict: Verdict | None) -> LeverState:
        """The lever's three fields for one VM.

        :param wish: bytes that it was asked for last
        :param verdict: what came of it; None where it was not asked, and probing says whether it could be
        """

    @abstractmethod
    def pull(
        self, domain: DomainObservation, policy: Policy, wish: int | None, *, dry_run: bool, stop: Stop
    ) -> Verdict:
        """Bring about what is wished, or say why not. None gives back what memhint took."""

    def owned(self) -> Collection[str]:
        """UUIDs of the VMs that have something to get back.

        :raises StoreError: when that cannot be read
        """
        return ()


@dataclass(frozen=True, slots=True)
class PassResult:
    """What came of one pass over the whole host: a verdict by domain UUID, and the host's own."""

    verdicts: Mapping[str, Verdict]
    host: Verdict


PlanT = TypeVar("PlanT")


class HostLever(ABC, Generic[PlanT]):
    """One lever whose plan takes all VMs of a host together. Its calls may take their time, too."""

    name: LeverName
    share = 0.33
    """Of the time that undoing everything may take."""

    def plan_of(self, planned: Planned, host: HostObservation) -> PlanT:
        """This lever's part of a plan for this host."""
        part: PlanT = planned.of_host[self.name]
        return part

    @abstractmethod
    def reconcile(
        self, plan: PlanT, domains: Sequence[DomainObservation], host: HostObservation, *, dry_run: bool
    ) -> PassResult:
        """Bring every VM and the host to the plan. Where it is not time yet, the very outcome of the last pass."""

    def arrived(self) -> None:
        """A VM has started, or has more memory, and no view may have it yet. Called by libvirt's event thread: must not
        wait.
        """
        return

    def knows(self, arrivals: int) -> None:
        """The pass that follows goes by a view that has so many arrivals."""
        return

    def interrupt(self) -> None:
        """End a pass under way early, where that can be; called before somebody waits for one."""
        return

    def stopping(self) -> None:
        """The agent stops: what must not go on with nobody there ends at once, whatever pass is under way.

        Must not wait. What was changed is put back after that pass.
        """
        return

    def inherit(self, before: HostLever[PlanT]) -> None:
        """Go on from what an earlier one of this process knew, which a reload of the configuration has replaced."""
        return

    def hold(self) -> Verdict:
        """While not all VMs are known: do no more than is right whichever VMs there are."""
        return Verdict(Answer.UNCHANGED)

    @abstractmethod
    def held(self, missing: str) -> Verdict:
        """The verdict that reports show while `hold` holds.

        :param missing: what is not known
        """

    @abstractmethod
    def undo(self, domains: Sequence[DomainObservation], host: HostObservation) -> Verdict:
        """Put back everything that memhint changed."""

    @abstractmethod
    def states(
        self,
        domains: Sequence[DomainObservation],
        host: HostObservation,
        plan: PlanT,
        policies: Mapping[str, Policy],
        outcome: PassResult,
    ) -> Iterable[LeverState]:
        """The lever's three fields for every VM and for the host."""

    @abstractmethod
    def outcomes(self, plan: PlanT | None, outcome: PassResult) -> Iterable[LeverState]:
        """What a pass brought about, for the record. The plan is None where it gave everything back."""
