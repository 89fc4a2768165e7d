"""What a lever's plan for a whole host is made of, and where such plans are kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from memhint.objects.domain import DomainObservation
from memhint.objects.estimate import DedupEstimate
from memhint.objects.host import HostObservation
from memhint.objects.lever import LeverName
from memhint.objects.policy import Policy
from memhint.objects.relief import Relief
from memhint.planner.settings import PlannerSettings

HostPlans = Mapping[LeverName, Any]
"""The plan of each lever whose plan takes all VMs of a host together; each lever knows the type of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostCycle:
    """One cycle, after the ladder has asked."""

    host: HostObservation
    domains: Sequence[DomainObservation]
    policies: Mapping[str, Policy]
    unread: frozenset[str]
    """UUIDs of VMs of which no more than the size is known."""
    missing: str | None
    """What keeps the VMs as a whole from being known."""
    estimated: DedupEstimate | None
    relief: Relief
    """What the ladder asks for."""
    idle: frozenset[str]
    """QEMU processes."""
    calm: bool
    """Whether no rung of the ladder is entered."""
    now: float
    """Seconds of any clock that only moves forward."""
    elapsed: float | None
    """Seconds since the cycle before; None in the first one."""
    settings: PlannerSettings


@dataclass(frozen=True, slots=True)
class Taken:
    """UUIDs of the VMs whose huge pages are split now, by whatever takes less than one of them at a time."""

    any: frozenset[str]
    in_use: frozenset[str]
    """Those of which more than what is free in the guest is taken."""
