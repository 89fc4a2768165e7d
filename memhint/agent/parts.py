"""What a cycle is made of."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from memhint.agent.applied import Applied
from memhint.agent.deep_reads import DeepReads
from memhint.agent.nova_files import NovaFiles
from memhint.agent.observer import Observer
from memhint.agent.policies import Policies, PolicyStore
from memhint.agent.reclaim_store import ReclaimStore
from memhint.agent.runners.runner import LeverRunner
from memhint.agent.travelling_marks import TravellingMarks
from memhint.bus.publisher import Publisher
from memhint.objects.estimate import DedupEstimate
from memhint.objects.lever import LeverState
from memhint.objects.ownership import Ledger
from memhint.pages.candidates import Candidate
from memhint.planner.growth import GrowthTable
from memhint.planner.state import PlannerState


class Audit(Protocol):
    """Where every pull is written down."""

    def record(self, host: str, at: float, states: Iterable[LeverState]) -> None:
        """Levers whose verdict is another than before."""


class PatientAudit(Audit, Protocol):
    """An Audit that can also be told without a try to write it down, where the last one failed a moment ago."""

    def queue(self, host: str, at: float, states: Iterable[LeverState]) -> None:
        """As `record`, with the store's part written down when something is recorded the next time."""


class StateStore(Protocol):
    """Where the planner's memory outlives the agent."""

    def save(self, host: str, boot: str, state: PlannerState, ended: float | None = None) -> None:
        """Keep it; ``boot`` names the host's boot, from which its clock counts.

        :param ended: unix seconds, where this is the last state before the host goes down in order
        """


class Samples(Protocol):
    """Who looks at the VMs' pages, and estimates."""

    def want(self, candidates: Mapping[str, Candidate]) -> None:
        """The VMs that could merge now, by UUID."""

    def newest(self) -> DedupEstimate | None:
        """What is estimated; None where nothing is to be."""


def no_growth() -> GrowthTable | None:
    """Of a host that is sent no growth table."""
    return None


@dataclass(frozen=True, slots=True)
class Identity:
    """Who reports. ``epoch`` is one life of the agent, ``boot`` one of the host."""

    host: str
    epoch: str
    boot: str
    version: str | None = None  # of memhint


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """In the order in which a cycle comes to them."""

    observer: Observer
    policies: Policies
    samples: Samples
    runners: Sequence[LeverRunner]
    """In the order in which levers are pulled; undone in the reverse order."""
    deep: DeepReads
    nova: NovaFiles
    publisher: Publisher
    audit: PatientAudit
    states: StateStore
    marks: TravellingMarks
    applied: Applied = field(default_factory=Applied)
    growth: Callable[[], GrowthTable | None] = no_growth


@dataclass(frozen=True, slots=True)
class Stores:
    """The store, as far as the agent uses it."""

    policies: PolicyStore
    ledger: Ledger
    publisher: Publisher
    audit: PatientAudit
    states: StateStore
    reclaims: ReclaimStore
    growth: Callable[[], GrowthTable | None] = no_growth
