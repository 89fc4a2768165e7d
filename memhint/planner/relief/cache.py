"""The rung `cache`: guests give back cold page cache."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from memhint.objects.exclusion import Mechanism
from memhint.objects.ladder import Rung
from memhint.objects.policy import QosClass
from memhint.planner.relief.candidate import Candidate
from memhint.planner.settings import LadderSettings


def caches(
    rungs: frozenset[Rung], candidates: Sequence[Candidate], shortage: int, settings: LadderSettings
) -> dict[str, int]:
    """Bytes of page cache that each VM is asked for, while the rung is entered or always holds."""
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
        and one.may(Mechanism.RETURN)
        and one.domain.guest is not None
        and one.domain.guest.cached is not None
        and one.domain.guest.cached >= settings.cache_least
    ]
