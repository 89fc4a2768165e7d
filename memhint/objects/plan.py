"""What a host can promise, where every byte of that comes from, and what is to be pulled."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from memhint.objects.exclusion import Excluded
from memhint.objects.ladder import EnteredRung
from memhint.objects.lever import Action
from memhint.objects.ranges import Balance, Count, Size
from memhint.objects.relief import NO_RELIEF, Relief
from memhint.objects.words import Word


class PredictorName(StrEnum):
    """Who forecasts."""

    DECAYING_PEAK = "decaying_peak"
    QUANTILE = "quantile"
    N_SIGMA = "n_sigma"


class DemandReason(Word):
    """Why a VM's demand is what it is."""

    STOPPED = "stopped"  # may start at any time: counts in full
    UNOBSERVED = "unobserved"  # no reading of its process: counts in full
    NEW = "new"  # decaying from its full size
    FORECAST = "forecast"
    GROWTH = "growth"  # VMs of the fleet that were like it came to more than it is forecast to need
    MINIMUM = "minimum"  # the forecast is below what its policy keeps for it
    EXCLUDED = "excluded"  # its memory cannot be counted on to come back: counts in full
    GUARANTEED = "guaranteed"  # class=guaranteed: counts in full
    OUTSIDE = "outside"  # backed by explicit huge pages: leaves every sum


@dataclass(frozen=True, slots=True)
class Demand:
    """One VM's share. Bytes."""

    uuid: str
    assigned: Size  # A: plugged memory and QEMU's overhead
    footprint: Size  # U, 0 where it was not observed
    demand: Size  # D
    reason: DemandReason
    detail: str = ""
    forecast: int | None = None  # the predictor's word, where it was asked
    minimum: int = 0  # what policy keeps for the VM, overhead included
    group: str | None = None  # anti-affinity group
    excluded: tuple[Excluded, ...] = ()  # every reason for which it counts in full, strongest first
    growth: int = 0  # what the fleet's growth table keeps for the VM; 0 where it says nothing


class Bound(Word):
    """Which rule bounds the headroom."""

    MODEL = "model"  # what the forecast leaves
    NOW = "now"  # what is really free now
    BACK = "back"  # what could be backed if everybody came at once
    NODE = "node"  # what the tightest NUMA node leaves that VMs are bound to
    RATIO = "ratio"  # the maximum ratio of this host or one of its aggregates
    RATE = "rate"  # capacity rises slowly
    PRESSURE = "pressure"  # the host is under pressure: nothing is promised
    STALE = "stale"  # the observation is too old: nominal


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a host's past says of a ratio above its maximum."""

    hours: Count  # of the last 56 days in which VMs were given most of the host
    share: Count  # thousandths: the most that VMs used together of what they were given; 1000 where the host ran short


@dataclass(frozen=True, slots=True)
class Capacity:
    """The terms of the capacity formula. Bytes; ``headroom`` is what may be promised now."""

    pool: Size
    reserve: Balance
    other: Balance
    assigned: Count  # ΣA
    footprint: Count  # ΣU
    resident: Count  # ΣRSS
    want: Balance
    spare: Balance
    backing: Balance  # disk swap that others than the VMs do not use, and allow_unbacked
    model: Balance
    now: Balance
    back: Balance
    headroom: Balance  # H, never below 0
    bound: Bound
    node: Balance | None = None  # the room of the tightest NUMA node; None where no VM is bound to one
    ceiling: Balance | None = None  # max_ratio × (pool − reserve) − ΣA; this and what follows: None in older reports
    available: Size | None = None  # what the kernel could give
    ksm_saving: Count | None = None
    storm: Count | None = None  # percent of VMs that may come back at once, for which ``spare`` suffices
    max_ratio: float | None = None  # what ``ceiling`` is made of: the host's, or what it has earned
    evidence: Evidence | None = None  # None where nothing can be earned
    together: bool = False  # want and spare are what VMs used together at their worst, not what each may need
    blind: bool = False  # which VMs there are, or what they were given, is not known: the sums over them may lack some

    def slots(self, size: int) -> int:
        """How many further VMs of ``size`` bytes (overhead included) fit by measured accounting."""
        return max(0, self.headroom) // size

    def nominal_headroom(self) -> int:
        """What accounting by assigned memory alone would leave; negative on an overcommitted host.

        Never above 0 while the host is ``blind``: there may be VMs that ``assigned`` does not count.
        """
        left = self.pool - self.reserve - self.assigned
        return min(0, left) if self.blind else left

    def nominal_slots(self, size: int) -> int:
        """How many further VMs of ``size`` bytes fit by nominal accounting."""
        return max(0, self.nominal_headroom()) // size


@dataclass(frozen=True, slots=True)
class PressureVerdict:
    """Whether the host admits, and which signal says otherwise."""

    admitting: bool
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Plan:
    """The outcome of one planning: pure data, the same whether it is carried out or only shown."""

    capacity: Capacity
    demands: tuple[Demand, ...]
    pressure: PressureVerdict
    actions: tuple[Action, ...]
    rungs: tuple[EnteredRung, ...] = ()  # of the pressure ladder, lowest first
    relief: Relief = NO_RELIEF  # what they ask for
