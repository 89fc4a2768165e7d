"""What is asked of VMs in one cycle, by every lever: pure, and the same whether it is carried out or only shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from memhint.objects.domain import DomainObservation, DomainState
from memhint.objects.exclusion import Excluded
from memhint.objects.ladder import Rung
from memhint.objects.policy import Policy
from memhint.objects.relief import NO_RELIEF, Relief
from memhint.objects.tuning import GUESTS_OWN, Tuning
from memhint.planner.cold import Cold
from memhint.planner.levers import PLANNED
from memhint.planner.levers.lever import Need
from memhint.planner.relief.candidate import Candidate
from memhint.planner.settings import LadderSettings

_WISHED = tuple(lever.wished for lever in PLANNED if lever.wished is not None)
_SINGLES = tuple(lever for lever in PLANNED if lever.takes_singles)
_OTHERS = tuple(lever for lever in PLANNED if not lever.takes_singles)
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
        if (wanted or any(wished(policies[one.uuid]) for wished in _WISHED))
        and one.state is DomainState.RUNNING
        and one.process is not None
        and not one.facts.hugepages
    ]
    need = Need(rungs=rungs, settings=settings, candidates=candidates, shortage=shortage, migrate=migrate, cold=cold)
    relief = NO_RELIEF
    for lever in _SINGLES:
        relief = lever.ask(need, relief)
    need = replace(need, singles={uuid for lever in _SINGLES for uuid in relief.of(lever.name)})
    for lever in _OTHERS:
        relief = lever.ask(need, relief)
    return relief


def fruitless(relief: Relief, settings: LadderSettings) -> frozenset[Rung]:
    """The rungs on which no VM can be asked, or for nothing new: the next one need not wait for their effect."""
    nobody = {rung for lever in PLANNED for rung, asked in lever.asked.items() if not asked(relief)}
    # What is always set was set before the host came under pressure.
    before = settings.always - {rung for lever in PLANNED if lever.grows for rung in lever.asked}
    return frozenset({Rung.ADMISSION, *before, *nobody})
