"""What one cycle hands to the next."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from memhint.objects.tuning import Tuning
from memhint.planner.cold import Cold
from memhint.planner.compaction import Compaction
from memhint.planner.dedup_state import DedupState
from memhint.planner.earned_ratio import Earned
from memhint.planner.ladder import LadderState
from memhint.planner.past import Past
from memhint.planner.settings import PlannerSettings
from memhint.planner.signals import Counters
from memhint.planner.storm_learn import Storms
from memhint.planner.window import Window


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannerState(DedupState):
    """What one cycle hands to the next."""

    other: Window
    fault_in: Window
    at: float | None = None
    past: Mapping[str, Past] = field(default_factory=dict)
    footprint: Mapping[str, int] = field(default_factory=dict)  # by QEMU process
    counters: Counters = field(default_factory=Counters)
    ladder: LadderState = field(default_factory=LadderState)
    idle: frozenset[str] = frozenset()  # QEMU processes
    busy: Mapping[str, float] = field(default_factory=dict)  # the others, and for how many seconds
    tops: Mapping[str, int] = field(default_factory=dict)  # by QEMU process: its largest footprint since it was at rest
    tuning: Mapping[str, Tuning] = field(default_factory=dict)  # as asked for last
    migrate: str | None = None
    ksm_saving: int = 0  # bytes, as KSM was read last
    swap_most: int | None = None  # bytes of swap that the VMs' cgroup may have, as known last; None: not limited
    storms: Storms = field(default_factory=Storms)
    earned: Earned = field(default_factory=Earned)
    oom_kills: int | None = None  # as counted last
    headroom: int = 0  # as promised last, or as it would have been had all VMs been seen
    predictor: str = ""  # whose past it is
    split: Mapping[str, float] = field(default_factory=dict)  # by QEMU process: seconds since pieces were taken of it
    compaction: Compaction = field(default_factory=Compaction)
    cpu: Mapping[str, float] = field(default_factory=dict)  # by QEMU process: seconds of processor time it has taken
    cold: Mapping[str, Cold] = field(default_factory=dict)  # by QEMU process, where cold memory is always put away


def unlisted(state: PlannerState, now: PlannerState) -> PlannerState:
    """What is remembered after a cycle without a list of the VMs: nothing of any VM is forgotten.

    Such a cycle earns nothing; what a shortage costs is lost in it, too.
    """
    return replace(
        state,
        at=now.at,
        headroom=now.headroom,
        ladder=now.ladder,
        counters=now.counters,
        earned=now.earned,
        oom_kills=now.oom_kills,
    )


def start(settings: PlannerSettings) -> PlannerState:
    """The state of a planner that has seen nothing: every VM is new, what was promised is nominal."""
    return PlannerState(other=Window(settings.other_window), fault_in=Window(settings.fault_in_window))
