"""One reclaim under way or held, whether it may go on, and where requests are kept."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from memhint.objects.domain import DomainObservation, DomainState
from memhint.objects.policy import Policy
from memhint.objects.reclaim import Reclaim
from memhint.objects.verdict import Answer, Reason, Verdict


class ReclaimStore(Protocol):
    """Where requests are kept. Every method raises StoreError when it is away."""

    def open(self) -> tuple[Reclaim, ...]:
        """Those of this host that have not ended, oldest first."""

    def interrupted(self) -> Mapping[str, str]:
        """Why requests of this host that have not ended shall end, by id."""

    def save(self, reclaim: Reclaim) -> bool:
        """Keep how far it has come; False where it had ended already, which nothing changes any more."""


class NoRequests:
    """A store without requests: of a dry run."""

    def open(self) -> tuple[Reclaim, ...]:
        """None."""
        return ()

    def interrupted(self) -> Mapping[str, str]:
        """None."""
        return {}

    def save(self, reclaim: Reclaim) -> bool:
        """Drop it."""
        return True


@dataclass(slots=True)
class Work:
    """One reclaim under way, or held. Guarded by the lock of whoever has it."""

    domain: DomainObservation  # as it was when it began
    policy: Policy
    reclaim: Reclaim
    stored: bool
    thread: threading.Thread | None = None
    withdrawn: Verdict | None = None
    unsaved: bool = False  # the store was away when it was last told


def objection(work: Work, domain: DomainObservation | None, policy: Policy | None) -> Verdict | None:
    """Whether VM and consent are still those under which it began; None where they are."""
    if domain is None or policy is None or domain.state is not DomainState.RUNNING:
        return Verdict(Answer.FAILED, Reason.NOT_RUNNING, "the VM went away meanwhile")
    if _instance(domain) not in ("", _instance(work.domain)):
        return Verdict(Answer.FAILED, Reason.NOT_RUNNING, "the VM was started anew meanwhile")
    if not policy.guest_actions:
        return Verdict(Answer.REFUSED, Reason.CONSENT, "guest_actions was set to deny meanwhile")
    return None


def _instance(domain: DomainObservation) -> str:
    return domain.process.instance if domain.process is not None else ""
