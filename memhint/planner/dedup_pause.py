"""A VM that merges and is paused for a moment, as by a snapshot or at the end of a live migration, stays as it is.

To take it out separates its merged pages, which takes memory and has to be merged again a moment later. One that stays
paused is taken out like every VM that does not run.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from memhint.objects.domain import DomainObservation, DomainState

KEPT = 300.0  # seconds
_PAUSED = frozenset({DomainState.PAUSED, DomainState.INCOMING})  # the latter is its state on the source, too


def next_pauses(
    before: Mapping[str, float], merging: Collection[str], domains: Sequence[DomainObservation], now: float
) -> dict[str, float]:
    """Since when VMs that merged have been paused, in seconds of the planner's clock, by QEMU process.

    :param before: the same at the last look
    :param merging: QEMU processes that merged then
    """
    return {
        one.process.instance: before.get(one.process.instance, now)
        for one in domains
        if one.state in _PAUSED
        and one.process is not None
        and (one.process.instance in before or one.process.instance in merging)
    }


def stays(pauses: Mapping[str, float], domain: DomainObservation, now: float) -> bool:
    """Whether a VM that does not run goes on as one that merges."""
    since = pauses.get(domain.process.instance) if domain.process is not None else None
    return since is not None and now - since < KEPT
