"""What a lever of a VM is to the agent, whatever it does inside: asked for a number of bytes, or to give back."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Protocol

from memhint.objects.domain import DomainObservation
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
