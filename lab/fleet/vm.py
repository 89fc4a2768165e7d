"""One VM of the synthetic fleet: what it is, and how its memory moves."""

from __future__ import annotations

import math
import random
import uuid
from dataclasses import dataclass, field, replace

from memhint.objects.discarded import Agreement, ReportingCheck
from memhint.objects.domain import DomainFacts, DomainObservation, DomainState, ProcessMemory
from memhint.objects.gap import Gap, GapReason
from memhint.objects.guest import GuestKernel, GuestMemory, GuestSource
from memhint.objects.lever import LeverName, LeverState, Observed
from memhint.objects.plan import Demand, DemandReason
from memhint.objects.policy import Origin, Policy, effective
from memhint.objects.report import DomainReport, Reclaimable
from memhint.objects.units import GIB, MIB
from memhint.objects.verdict import Answer, Reason, Verdict
from memhint.planner.levers.cache import by_cache
from memhint.planner.levers.reporting import by_reporting

OVERHEAD = 128 * MIB  # of QEMU
PROJECTS = ("blue", "green", "orange", "violet")
ROLES = ("web", "db", "ci", "mail", "build", "cache")
_ORIGINS = (uuid.UUID("5b1d0000-0000-4000-8000-000000000000").int,)
_SIZES = (1, 2, 2, 4, 4, 4, 8, 8, 16)  # GiB
_REFUSED = "the guest may not be changed; memhint set {name} guest_actions=allow"


def uuid_of(host: int, number: int) -> str:
    """The UUID of a host's VM."""
    return str(uuid.UUID(int=_ORIGINS[0] + (host << 24) + number))


@dataclass(frozen=True, slots=True)
class Vm:
    """What stays the same of a VM. ``hoard`` is the part of its memory that is free and that it never reports."""

    uuid: str
    name: str
    facts: DomainFacts
    policy: Policy
    state: DomainState
    source: GuestSource | None
    used: float  # of its memory, on average
    swing: float  # by how much that moves
    period: float  # seconds in which it does
    phase: float
    hoard: float
    refused: bool
    lies: bool
    pid: int
    noise: int = field(default=0)

    def report(self, at: float) -> tuple[DomainReport, Demand]:
        """The VM at a moment (unix seconds)."""
        size = self.facts.memory
        if self.state is not DomainState.RUNNING:
            return self._stopped(at), Demand(self.uuid, size + OVERHEAD, 0, size + OVERHEAD, DemandReason.STOPPED)
        jitter = ((int(at) // 10 * 2654435761 + self.noise) >> 7) % 1000 / 1000 - 0.5
        level = self.used + self.swing * math.sin(2 * math.pi * at / self.period + self.phase) + 0.004 * jitter
        used = int(min(0.97, max(0.03, level)) * size)
        hoard = min(int(self.hoard * size), size - used)
        rss = min(size, used + hoard) + OVERHEAD
        merged = 24 * MIB if self.policy.dedup == "on" else 0
        process = ProcessMemory(self.pid, self.noise, rss, (self.noise % 3 == 0) * 16 * MIB, merged, merged // 4)
        seen = DomainObservation(
            self.uuid,
            self.name,
            self.state,
            self.facts,
            process=process,
            guest=self._guest(at, used, hoard),
            guest_kernel=GuestKernel(at - 5, "6.12.43+deb13-cloud-amd64", "boot", 9, "virtio3", True, True),
            balloon_actual=size,
            gaps=() if self.source else (Gap("guest", GapReason.TIMEOUT, "its agent does not answer"),),
            reporting_check=self._check(at, hoard),
        )
        demand = min(size + OVERHEAD, rss + size // 16)
        return (
            DomainReport(seen, self.policy, max(0, size // 2 - used), self._reclaimable(seen), self._levers()),
            Demand(self.uuid, size + OVERHEAD, process.footprint, demand, DemandReason.FORECAST, "decaying peak"),
        )

    def _stopped(self, at: float) -> DomainReport:
        gap = Gap("process", GapReason.GONE, "is not running")
        seen = DomainObservation(self.uuid, self.name, self.state, self.facts, gaps=(gap,))
        unknown = Reclaimable(LeverName.REPORTING, None, GuestSource.HOST, None)
        return DomainReport(seen, self.policy, None, (unknown,), ())

    def _guest(self, at: float, used: int, hoard: int) -> GuestMemory | None:
        if self.source is None:
            return None
        size = self.facts.memory
        exact = self.source in (GuestSource.KERNEL, GuestSource.KPAGEFLAGS)
        free = size - used
        return GuestMemory(
            self.source,
            at - 4,
            total=size - size // 40,
            free=free,
            available=free + used // 5,
            cached=used // 4,
            reported=free - hoard if exact else None,
            unreported=hoard if exact else None,
        )

    def _check(self, at: float, hoard: int) -> ReportingCheck | None:
        if self.source is not GuestSource.KERNEL:
            return None
        agreement = Agreement.OVERCLAIMS if self.lies else Agreement.AGREES
        claimed = 600 * MIB if self.lies else 200 * MIB
        return ReportingCheck(f"{self.pid}:1", "boot", at - 600, at - 4, claimed, 220 * MIB, 180 * MIB, agreement)

    def _reclaimable(self, seen: DomainObservation) -> tuple[Reclaimable, ...]:
        cache = Observed.ON if self.policy.guest_actions else Observed.UNSUPPORTED
        return (
            by_reporting(seen),
            Reclaimable(LeverName.DEDUP, None, GuestSource.HOST, None),
            by_cache(seen, cache),
        )

    def _levers(self) -> tuple[LeverState, ...]:
        done = Verdict(Answer.UNCHANGED)
        merging = Observed.ON if self.policy.dedup == "on" else Observed.OFF
        refused = Verdict(Answer.REFUSED, Reason.CONSENT, _REFUSED.format(name=self.name))
        return (
            LeverState(LeverName.REPORTING, self.uuid, str(self.policy.reporting), Observed.ON, done),
            LeverState(LeverName.DEDUP, self.uuid, str(self.policy.dedup), merging, done),
            LeverState(LeverName.CACHE, self.uuid, "auto", Observed.OFF, refused if self.refused else done),
        )


def make_vm(seed: int, host: int, number: int, *, hoards: bool) -> Vm:
    """A VM of the fleet.

    :param hoards: whether this is the one that holds far more unreported memory than every other
    """
    chance = random.Random(f"{seed}:{host}:{number}")
    size = 32 * GIB if hoards else chance.choice(_SIZES) * GIB
    role = "build" if hoards else ROLES[(host + number) % len(ROLES)]
    inputs: dict[str, str] = {}
    if hoards or chance.random() < 0.5:
        inputs["guest_actions"] = "allow"
    if chance.random() < 0.15:
        inputs["dedup"] = "on"
    inputs["class"] = chance.choice(("burstable", "burstable", "burstable", "best-effort", "guaranteed"))
    source = chance.choice((GuestSource.KERNEL, GuestSource.KERNEL, GuestSource.KPAGEFLAGS, GuestSource.PROC, None))
    vm = Vm(
        uuid_of(host, number),
        f"{role}-{host}-{number}",
        DomainFacts(
            memory=size,
            project=chance.choice(PROJECTS),
            balloon=True,
            reporting_offered=True,
            stats_period=10,
            guest_agent=source is not None,
        ),
        effective({Origin.FLAVOR: inputs}),
        DomainState.RUNNING,
        source,
        used=chance.uniform(0.2, 0.7),
        swing=chance.uniform(0.01, 0.15),
        period=chance.uniform(600.0, 7200.0),
        phase=chance.uniform(0.0, 6.0),
        hoard=chance.uniform(0.0, 0.12),
        refused="guest_actions" not in inputs,
        lies=chance.random() < 0.02,
        pid=2000 + number,
        noise=chance.randrange(1 << 32),
    )
    if hoards:
        return replace(vm, source=GuestSource.KERNEL, used=0.15, swing=0.01, hoard=0.75, lies=False)
    return replace(vm, state=DomainState.SHUTOFF) if chance.random() < 0.05 else vm
