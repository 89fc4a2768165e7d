"""What a lever is to the agent, whatever it does inside: of one VM after another, or of the whole host."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from memhint.objects.domain import DomainObservation
from memhint.objects.host import HostObservation
from memhint.objects.lever import LeverName, LeverState
from memhint.objects.policy import Policy
from memhint.objects.verdict import Verdict

Stop = Callable[[], bool]
"""Asked within a pull that takes long: whether to end it early."""


class VmLever(Protocol):
    """One lever, for any VM. A pull may take its time: it is never called on the cycle's thread."""

    name: LeverName
    always_shown: bool
    """Whether a report has its state for every VM; else for those that it was asked for last."""

    def state(self, domain: DomainObservation, policy: Policy, wish: int | None, verdict: Verdict | None) -> LeverState:
        """The lever's three fields for one VM.

        :param wish: bytes that it was asked for last
        :param verdict: what came of it; None where it was not asked, and probing says whether it could be
        """

    def pull(
        self, domain: DomainObservation, policy: Policy, wish: int | None, *, dry_run: bool, stop: Stop
    ) -> Verdict:
        """Bring about what is wished, or say why not. None gives back what memhint took."""

    def owned(self) -> Collection[str]:
        """UUIDs of the VMs that have something to get back.

        :raises StoreError: when that cannot be read
        """


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one pass over the whole host: a verdict by domain UUID, and the host's own."""

    verdicts: Mapping[str, Verdict]
    host: Verdict


PlanT = TypeVar("PlanT", contravariant=True)


class HostLever(Protocol[PlanT]):
    """One lever whose plan takes all VMs of a host together. Its calls may take their time, too."""

    name: LeverName

    def reconcile(
        self, plan: PlanT, domains: Sequence[DomainObservation], host: HostObservation, *, dry_run: bool
    ) -> Outcome:
        """Bring every VM and the host to the plan."""

    def hold(self) -> Verdict:
        """While not all VMs are known: do no more than is right whichever VMs there are."""

    def held(self, missing: str) -> Verdict:
        """The same in words.

        :param missing: what is not known
        """

    def undo(self, domains: Sequence[DomainObservation], host: HostObservation) -> Verdict:
        """Put back everything that memhint changed."""

    def states(
        self,
        domains: Sequence[DomainObservation],
        host: HostObservation,
        plan: PlanT,
        policies: Mapping[str, Policy],
        outcome: Outcome,
    ) -> Iterable[LeverState]:
        """The lever's three fields for every VM and for the host."""

    def outcomes(self, plan: PlanT | None, outcome: Outcome) -> Iterable[LeverState]:
        """What a pass brought about, for the record. The plan is None where it gave everything back."""
