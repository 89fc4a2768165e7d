"""What is pulled within the conversations with guests, whatever lever it is."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Protocol

from memhint.guest.errors import GuestError
from memhint.guest.protocol import GuestAgent
from memhint.objects.domain import DomainObservation
from memhint.objects.policy import Policy
from memhint.objects.tuning import GUESTS_OWN, Tuning
from memhint.objects.verdict import Verdict


@dataclass(frozen=True, slots=True)
class GuestWish:
    """A VM as the last cycle saw it, and what is wished of its guest."""

    domain: DomainObservation
    policy: Policy
    tuning: Tuning = GUESTS_OWN

    @property
    def wished(self) -> tuple[Policy, Tuning]:
        """What is asked of the guest: a change of it is acted on at once."""
        return self.policy, self.tuning


class GuestLever(Protocol):
    """Pulled by the threads of the conversations, one pull or undo of a guest at a time."""

    def pull(self, wish: GuestWish, agent: GuestAgent | None, trouble: GuestError | None = None) -> bool:
        """Pull the lever; True when something was changed in the guest.

        :param agent: the conversation in which the guest's kernel and memory were just read; None where there is none
        :param trouble: why there is none, or what the guest's agent cannot do
        """

    def stop(self) -> None:
        """Pull no more: a conversation that goes on must not pull again what is put back."""

    def put_back(self, wish: GuestWish, agent: GuestAgent | None) -> Verdict:
        """Undo what memhint changed in this guest."""

    def owned(self, among: Collection[str]) -> set[str]:
        """The VMs of these that bear a mark of the lever."""

    def touched(self, among: Collection[str]) -> set[str]:
        """Those, and the VMs of these with a pull under way, which may come to bear one. Asked after `stop`.

        :raises StoreError: the marks cannot be read
        """

    def retain(self, uuids: Collection[str]) -> None:
        """Forget all other VMs."""
