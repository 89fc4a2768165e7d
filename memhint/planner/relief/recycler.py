"""The rung `recycler`: single free pages of idle guests come back, where the guest marks them."""

from __future__ import annotations

from collections.abc import Iterable

from memhint.objects.exclusion import Mechanism
from memhint.objects.ladder import Rung
from memhint.objects.policy import Mode, QosClass
from memhint.planner.relief.candidate import Candidate
from memhint.planner.relief.pieces_pay import taken_in_pieces
from memhint.planner.settings import LadderSettings


def recyclers(rungs: frozenset[Rung], candidates: Iterable[Candidate], settings: LadderSettings) -> dict[str, int]:
    """Bytes per second that may be recycled of each VM: where policy wishes it, and of idle ones on this rung.

    A VM that wakes uses again what it freed last: it is left alone until it is idle again.
    """
    return {
        one.uuid: settings.recycler_bytes
        for one in candidates
        if one.policy.qos is not QosClass.GUARANTEED
        and one.may(Mechanism.RETURN)
        and _marks_pages(one)
        and (
            one.policy.recycler is Mode.ON
            or (
                one.policy.recycler is Mode.AUTO
                and one.idle
                and taken_in_pieces(Rung.RECYCLER, one.domain, 0, rungs, settings, begun=_recycles(one))
            )
        )
    }


def _marks_pages(one: Candidate) -> bool:
    seen = one.domain.balloon_reporting
    return seen is not None and seen.recycler is not None and seen.recycler.negotiated


def _recycles(one: Candidate) -> bool:
    seen = one.domain.balloon_reporting
    return seen is not None and seen.recycler is not None and bool(seen.recycler.workers)
