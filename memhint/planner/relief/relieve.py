"""Which VM gives what on each rung of the ladder: pure, and the same whether it is carried out or only shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from memhint.objects.domain import DomainObservation, DomainState
from memhint.objects.exclusion import Excluded
from memhint.objects.ladder import Rung
from memhint.objects.policy import Mode, Policy
from memhint.objects.relief import Relief
from memhint.objects.tuning import GUESTS_OWN, Tuning
from memhint.planner.cold import Cold, cold_wishes
from memhint.planner.relief.balloon import balloons
from memhint.planner.relief.cache import caches
from memhint.planner.relief.candidate import Candidate
from memhint.planner.relief.migration import whom_to_migrate
from memhint.planner.relief.recycler import recyclers
from memhint.planner.relief.swap_out import swap_outs
from memhint.planner.relief.tuning import tuned, tunings
from memhint.planner.settings import LadderSettings

_NOBODY: Mapping[str, tuple[Excluded, ...]] = {}
_UNTUNED: Mapping[str, Tuning] = {}
_UNREAD: Mapping[str, Cold] = {}

PRESSED = "the host is under pressure"
CALM = "the VM is idle"
"""Why something is asked for: as reports and events have it."""


def relieve(
    rungs: frozenset[Rung],
    domains: Sequence[DomainObservation],
    policies: Mapping[str, Policy],
    idle: frozenset[str],
    shortage: int,
    settings: LadderSettings,
    migrate: str | None = None,
    excluded: Mapping[str, tuple[Excluded, ...]] = _NOBODY,
    kept: Mapping[str, Tuning] = _UNTUNED,
    cold: Mapping[str, Cold] = _UNREAD,
) -> Relief:
    """What is asked for with these rungs entered, and of idle VMs by those that always hold.

    :param idle: names of QEMU processes
    :param shortage: bytes that must become available before the host is calm
    :param migrate: whom somebody was asked to move before; asked again as long as that can be done
    :param excluded: why VMs count in full, which may forbid some ways of having memory from them
    :param kept: tuning of VMs that go on with it, idle or busy for a moment only, from `keep_tuning`
    :param cold: what is known to rest, by QEMU process, from `next_cold`
    """
    wanted = rungs | settings.always
    candidates = [
        Candidate(
            one,
            policies[one.uuid],
            one.process is not None and one.process.instance in idle,
            excluded.get(one.uuid, ()),
            kept.get(one.uuid, GUESTS_OWN),
        )
        for one in domains
        # While the host is calm only policy's own wishes count, and hardly anybody has one.
        if (wanted or tuned(policies[one.uuid]) or policies[one.uuid].recycler is Mode.ON)
        and one.state is DomainState.RUNNING
        and one.process is not None
        and not one.facts.hugepages
    ]
    return Relief(
        tuning=tunings(rungs, candidates, settings),
        cache=caches(rungs, candidates, shortage, settings),
        recycler=recyclers(rungs, candidates, settings),
        balloon=balloons(candidates, settings) if Rung.BALLOON in rungs else {},
        swap_out=_swap_outs(rungs, candidates, shortage, settings, cold),
        dedup=Rung.DEDUP in rungs,
        migrate=whom_to_migrate(candidates, migrate) if Rung.MIGRATION in rungs else None,
    )


def _swap_outs(
    rungs: frozenset[Rung],
    candidates: Sequence[Candidate],
    shortage: int,
    settings: LadderSettings,
    cold: Mapping[str, Cold],
) -> dict[str, int]:
    """What is short while the rung is entered; else what rests, where it always holds."""
    if Rung.SWAP_OUT in rungs:
        return swap_outs(candidates, shortage, settings)
    return cold_wishes(cold, candidates) if Rung.SWAP_OUT in settings.always else {}


def fruitless(relief: Relief, settings: LadderSettings) -> frozenset[Rung]:
    """The rungs on which no VM can be asked, or for nothing new: the next one need not wait for their effect."""
    asked = {
        Rung.REPORTING: any(one.delay_ms is not None for one in relief.tuning.values()),
        Rung.CACHE: bool(relief.cache),
        Rung.RECYCLER: bool(relief.recycler),
        Rung.ORDER: any(one.order is not None for one in relief.tuning.values()),
        Rung.DEDUP: relief.dedup,
        Rung.BALLOON: bool(relief.balloon),
        Rung.SWAP_OUT: bool(relief.swap_out),
    }
    # What is always set was set before the host came under pressure. Page cache has grown since, and to swap goes more.
    before = settings.always - {Rung.CACHE, Rung.SWAP_OUT}
    return frozenset({Rung.ADMISSION, *before, *(rung for rung, somebody in asked.items() if not somebody)})
