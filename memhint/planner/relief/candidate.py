"""One VM that a rung of the ladder may ask for something."""

from __future__ import annotations

from dataclasses import dataclass

from memhint.objects.domain import DomainObservation
from memhint.objects.exclusion import Excluded, Mechanism
from memhint.objects.policy import Policy, QosClass
from memhint.objects.tuning import GUESTS_OWN, Tuning
from memhint.planner.exclusions import forbidden


@dataclass(frozen=True, slots=True)
class Candidate:
    """One running VM that may be asked for something, and what holds for it."""

    domain: DomainObservation
    policy: Policy
    idle: bool
    excluded: tuple[Excluded, ...] = ()
    kept: Tuning = GUESTS_OWN  # what it goes on with

    def may(self, mechanism: Mechanism) -> bool:
        """Whether memory may be had from it by this mechanism."""
        return forbidden(self.excluded, mechanism) is None

    @property
    def may_swap(self) -> bool:
        """Whether memory of it may go to swap now: it rests, its policy allows it, and nothing speaks against it."""
        allowed = self.policy.swap_out and self.policy.qos is not QosClass.GUARANTEED
        return allowed and self.idle and self.may(Mechanism.SWAP)

    @property
    def uuid(self) -> str:
        """UUID of its domain."""
        return self.domain.uuid
