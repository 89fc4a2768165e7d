"""What a cycle knows before it plans: the host, its VMs, and what holds for each of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from memhint.agent.observer import Observation
from memhint.objects.domain import DomainObservation
from memhint.objects.gap import Gap
from memhint.objects.policy import Policy


@dataclass(frozen=True, slots=True)
class HostSnapshot:
    """One cycle's view of its host."""

    at: float  # unix seconds
    seen: Observation
    policies: Mapping[str, Policy]
    """By domain UUID, of every VM that was seen."""
    unreadable: Mapping[str, str]
    """Of which VMs a wish cannot be read, and why."""
    gaps: Sequence[Gap] = ()
    """What kept policies from being read."""

    @property
    def unread(self) -> frozenset[str]:
        """VMs of which the definition or the policy is not known."""
        return self.seen.unread | self.unreadable.keys()

    @property
    def known(self) -> list[DomainObservation]:
        """The others: to these something may be done."""
        unread = self.unread
        return [one for one in self.seen.domains if one.uuid not in unread]

    @property
    def missing(self) -> str | None:
        """What keeps the VMs as a whole from being known, and whose they are; None where they are known."""
        return self._missing(named=True)

    @property
    def missing_unnamed(self) -> str | None:
        """The same for what VMs' projects read: it names no VM."""
        return self._missing(named=False)

    def _missing(self, *, named: bool) -> str | None:
        if not self.seen.listed:
            return "libvirt has not said which VMs there are"
        if self.seen.outdated:
            return "libvirt has not said for a while which VMs there are"
        if self.seen.unread:
            unread = (one.name for one in self.seen.domains if one.uuid in self.seen.unread)
            names = ", ".join(unread) if named else "a VM"
            return f"the definition of {names} cannot be read"
        return None
