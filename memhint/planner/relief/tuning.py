"""The rungs `reporting` and `order`: idle guests report sooner, and smaller blocks."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from memhint.objects.exclusion import Mechanism
from memhint.objects.ladder import Rung
from memhint.objects.policy import Policy, QosClass
from memhint.objects.tuning import Tuning
from memhint.planner.relief.candidate import Candidate
from memhint.planner.relief.pieces_pay import taken_in_pieces
from memhint.planner.settings import LadderSettings

BESIDE_SINGLES = 4
"""The finest order that a guest is asked for whose single free pages another lever takes: finer reports would cost it
time for nothing. At this order it still reports what that lever does not see of it (doc/recycler.md)."""


def tuned(policy: Policy) -> bool:
    """Whether policy itself wishes an order or a delay."""
    return policy.reporting_order is not None or policy.reporting_delay_ms is not None


def words_of(tuning: Tuning) -> str:
    """What is asked of one guest."""
    parts = []
    if tuning.order is not None:
        parts.append(f"order {tuning.order}")
    if tuning.delay_ms is not None:
        parts.append(f"delay {tuning.delay_ms} ms")
    return ", ".join(parts)


def tunings(
    rungs: frozenset[Rung],
    candidates: Iterable[Candidate],
    settings: LadderSettings,
    singles: Collection[str] = (),
) -> dict[str, Tuning]:
    """Policy's own order and delay; else what these rungs want of idle guests that policy leaves free.

    :param singles: UUIDs of VMs whose single free pages another lever takes
    """
    found = {}
    for one in candidates:
        finest = _finest(one, one.uuid in singles, settings)
        order, delay = one.policy.reporting_order, one.policy.reporting_delay_ms
        may = one.policy.guest_actions and one.policy.qos is not QosClass.GUARANTEED and one.may(Mechanism.RETURN)
        finer = may and (one.idle or one.kept.order is not None) and _takes(one, "order")
        finer = finer and taken_in_pieces(
            Rung.ORDER, one.domain, finest, rungs, settings, begun=one.kept.order is not None
        )
        sooner = may and Rung.REPORTING in rungs | settings.always and (one.idle or one.kept.delay_ms is not None)
        sooner = sooner and _takes(one, "delay-ms")
        if finer and order is None:
            order = finest
        if sooner and delay is None:
            delay = settings.delay_ms
        wish = Tuning(order, delay, sooner and one.idle, one.kept.rests if sooner else 0)
        if not wish.empty:
            found[one.uuid] = wish
    return found


def _finest(one: Candidate, singles: bool, settings: LadderSettings) -> int:
    """The order of the smallest block that this guest is asked to report. One that is busy keeps what it has."""
    beside = singles or (not one.idle and one.kept.order == BESIDE_SINGLES)
    return max(settings.fine_order, BESIDE_SINGLES) if beside else settings.fine_order


def _takes(one: Candidate, setting: str) -> bool:
    """Whether a rung may ask this guest. One that cannot do it is spared; of one that is not known, asking tells."""
    kernel = one.domain.guest_kernel
    return kernel is None or setting in kernel.settable
