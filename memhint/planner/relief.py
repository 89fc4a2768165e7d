"""Which VM gives what on each rung of the ladder: pure, and the same whether it is carried out or only shown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from memhint.objects.domain import DomainObservation, DomainState
from memhint.objects.exclusion import Excluded, Way
from memhint.objects.ladder import Rung
from memhint.objects.lever import Action, LeverName
from memhint.objects.policy import Policy, QosClass
from memhint.objects.relief import Relief
from memhint.objects.tuning import GUESTS_OWN, Tuning
from memhint.planner.exclusions import forbidden
from memhint.planner.settings import LadderSettings

_NOBODY: Mapping[str, tuple[Excluded, ...]] = {}
_UNTUNED: Mapping[str, Tuning] = {}

PRESSED = "the host is under pressure"
CALM = "the VM is idle"
"""Why something is asked for: as reports and events have it."""

MARGIN = 128 << 20  # bytes beyond what a guest uses that a balloon leaves it


@dataclass(frozen=True, slots=True)
class Candidate:
    """One running VM that may be asked for something, and what holds for it."""

    domain: DomainObservation
    policy: Policy
    idle: bool
    excluded: tuple[Excluded, ...] = ()
    kept: Tuning = GUESTS_OWN  # what it goes on with

    def may(self, way: Way) -> bool:
        """Whether memory may be had from it this way."""
        return forbidden(self.excluded, way) is None

    @property
    def uuid(self) -> str:
        """UUID of its domain."""
        return self.domain.uuid


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
) -> Relief:
    """What is asked for with these rungs entered, and of idle VMs by those that always hold.

    :param idle: names of QEMU processes
    :param shortage: bytes that must become available before the host is calm
    :param migrate: whom somebody was asked to move before; asked again as long as that can be done
    :param excluded: why VMs count in full, which may forbid some ways of having memory from them
    :param kept: tuning of VMs that go on with it, idle or busy for a moment only, from `keep_tuning`
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
        if (wanted or _tuned(policies[one.uuid]))
        and one.state is DomainState.RUNNING
        and one.process is not None
        and not one.facts.hugepages
    ]
    return Relief(
        tuning=_tuning(wanted, candidates, settings),
        cache=_caches(rungs, candidates, shortage, settings),
        balloon=_balloon(candidates, settings) if Rung.BALLOON in rungs else {},
        swap_out=_swap_out(candidates, shortage, settings) if Rung.SWAP_OUT in rungs else {},
        dedup=Rung.DEDUP in rungs,
        migrate=_migrate(candidates, migrate) if Rung.MIGRATION in rungs else None,
    )


def fruitless(relief: Relief, settings: LadderSettings) -> frozenset[Rung]:
    """The rungs on which there is nobody to ask, or nothing new: the next one need not wait for their effect."""
    asked = {
        Rung.REPORTING: any(one.delay_ms is not None for one in relief.tuning.values()),
        Rung.CACHE: bool(relief.cache),
        Rung.ORDER: any(one.order is not None for one in relief.tuning.values()),
        Rung.DEDUP: relief.dedup,
        Rung.BALLOON: bool(relief.balloon),
        Rung.SWAP_OUT: bool(relief.swap_out),
    }
    # What is always set was set before the host came under pressure; page cache has grown since.
    before = settings.always - {Rung.CACHE}
    return frozenset({Rung.ADMISSION, *before, *(rung for rung, somebody in asked.items() if not somebody)})


def relief_actions(relief: Relief, *, calm: bool = False) -> tuple[Action, ...]:
    """The same as actions of a plan. `calm`: no rung is entered."""
    why = CALM if calm else PRESSED
    found = [
        *(
            Action(LeverName.REPORTING, uuid, _words(tuning), f"policy, or {why}")
            for uuid, tuning in relief.tuning.items()
        ),
        *(Action(LeverName.CACHE, uuid, f"{size >> 20} MiB back", why) for uuid, size in relief.cache.items()),
        *(Action(LeverName.BALLOON, uuid, f"{size >> 20} MiB left", why) for uuid, size in relief.balloon.items()),
        *(Action(LeverName.SWAP_OUT, uuid, f"{size >> 20} MiB out", why) for uuid, size in relief.swap_out.items()),
    ]
    if relief.migrate is not None:
        found.append(Action(LeverName.MIGRATION, relief.migrate, "another host", why))
    return tuple(found)


def _tuned(policy: Policy) -> bool:
    return policy.reporting_order is not None or policy.reporting_delay_ms is not None


def _words(tuning: Tuning) -> str:
    parts = []
    if tuning.order is not None:
        parts.append(f"order {tuning.order}")
    if tuning.delay_ms is not None:
        parts.append(f"delay {tuning.delay_ms} ms")
    return ", ".join(parts)


def _tuning(rungs: frozenset[Rung], candidates: Iterable[Candidate], settings: LadderSettings) -> dict[str, Tuning]:
    """Policy's own order and delay; else what these rungs want of idle guests that policy leaves free."""
    found = {}
    for one in candidates:
        order, delay = one.policy.reporting_order, one.policy.reporting_delay_ms
        may = one.policy.guest_actions and one.policy.qos is not QosClass.GUARANTEED and one.may(Way.RETURN)
        finer = may and Rung.ORDER in rungs and (one.idle or one.kept.order is not None)
        sooner = may and Rung.REPORTING in rungs and (one.idle or one.kept.delay_ms is not None)
        if finer and order is None:
            order = settings.fine_order
        if sooner and delay is None:
            delay = settings.delay_ms
        wish = Tuning(order, delay, sooner and one.idle, one.kept.rests if sooner else 0)
        if not wish.empty:
            found[one.uuid] = wish
    return found


def _caches(
    rungs: frozenset[Rung], candidates: Sequence[Candidate], shortage: int, settings: LadderSettings
) -> dict[str, int]:
    if Rung.CACHE in rungs:
        return _cache(candidates, shortage, settings)
    if Rung.CACHE in settings.always:
        # Nothing is short, so nobody is spared for another's sake; how much of it is cold the guest's kernel knows.
        return {uuid: cached for cached, uuid in _holders((one for one in candidates if one.idle), settings)}
    return {}


def _cache(candidates: Iterable[Candidate], shortage: int, settings: LadderSettings) -> dict[str, int]:
    """The largest caches first, until what is short is covered.

    What a guest says of its cache counts as far as it is resident, and nobody covers more than half of what is short:
    a guest that says too much must not keep the others from being asked.
    """
    found: dict[str, int] = {}
    left, most = shortage, max(shortage // 2, settings.cache_least)
    for cached, uuid in sorted(_holders(candidates, settings), key=lambda holder: (-holder[0], holder[1])):
        if left <= 0:
            break
        found[uuid] = min(cached, most, max(left, settings.cache_least))
        left -= found[uuid]
    return found


def _holders(candidates: Iterable[Candidate], settings: LadderSettings) -> list[tuple[int, str]]:
    """(bytes of page cache as far as they are resident, UUID) of those who may be asked for it."""
    return [
        (min(one.domain.guest.cached, one.domain.footprint or 0), one.uuid)
        for one in candidates
        if one.policy.guest_actions
        and one.policy.qos is not QosClass.GUARANTEED
        and one.may(Way.RETURN)
        and one.domain.guest is not None
        and one.domain.guest.cached is not None
        and one.domain.guest.cached >= settings.cache_least
    ]


def _balloon(candidates: Iterable[Candidate], settings: LadderSettings) -> dict[str, int]:
    """Idle best-effort guests, a step at a time, to what they use and never below their minimum."""
    found = {}
    for one in candidates:
        facts, guest, actual = one.domain.facts, one.domain.guest, one.domain.balloon_actual
        if not (
            one.policy.balloon and one.policy.qos is QosClass.BEST_EFFORT and facts.balloon and one.may(Way.BALLOON)
        ):
            continue
        if guest is None or guest.available is None or guest.total is None or actual is None or not one.policy.minimum:
            continue  # without a minimum nobody said how far it may go
        if not one.idle and actual >= facts.memory:
            continue  # one that shrank already keeps its size until the rung is left
        step = int(facts.memory * settings.balloon_step_percent / 100)
        floor = max(one.policy.minimum, guest.total - guest.available + MARGIN)
        target = max(floor, actual - step) if one.idle else actual
        found[one.uuid] = min(facts.memory, target)
    return found


def _swap_out(candidates: Iterable[Candidate], shortage: int, settings: LadderSettings) -> dict[str, int]:
    found: dict[str, int] = {}
    left = shortage
    holders = [
        (one.domain.process.rss, one)
        for one in candidates
        if one.policy.swap_out
        and one.policy.qos is not QosClass.GUARANTEED
        and one.may(Way.SWAP)
        and one.idle
        and one.domain.process
    ]
    for rss, one in sorted(holders, key=lambda holder: (-holder[0], holder[1].uuid)):
        if left <= 0:
            break
        most = min(left, int(rss * settings.swap_out_step_percent / 100), rss - one.policy.minimum)
        if most > 0:
            found[one.uuid] = most
            left -= most
    return found


def _migrate(candidates: Iterable[Candidate], before: str | None) -> str | None:
    """The VM whose leaving helps most: best-effort before burstable, then by footprint. Never a guaranteed one."""
    movable = [
        one
        for one in candidates
        if one.policy.qos is not QosClass.GUARANTEED
        and not (one.domain.facts.vfio or one.domain.facts.locked or one.domain.facts.confidential)
    ]
    if not movable:
        return None
    if before in {one.uuid for one in movable}:
        return before
    rank = {QosClass.BEST_EFFORT: 0, QosClass.BURSTABLE: 1}
    best = min(movable, key=lambda one: (rank[one.policy.qos], -(one.domain.footprint or 0), one.uuid))
    return best.uuid
