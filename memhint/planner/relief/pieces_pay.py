"""When a rung takes memory in pieces: under pressure whatever it costs, on a calm host where it pays."""

from __future__ import annotations

from memhint.objects.domain import DomainObservation
from memhint.objects.gap import Gap
from memhint.objects.ladder import Rung
from memhint.planner.settings import LadderSettings
from memhint.planner.splits import splits_by_free


def taken_in_pieces(
    rung: Rung,
    domain: DomainObservation,
    least_order: int,
    rungs: frozenset[Rung],
    settings: LadderSettings,
    *,
    begun: bool,
) -> bool:
    """Whether what is free in this VM in blocks down to ``least_order`` is taken.

    Where nothing is short, memory that lies a page here and a page there is worth less than the huge pages around it:
    each of them must yield ``split_least`` bytes. A VM of which that is not known is not spared.

    :param rungs: those that are entered
    :param begun: whether it is taken already: then the huge pages are split, and ending it would gain nothing
    """
    if rung in rungs:
        return True
    if rung not in settings.always:
        return False
    if begun:
        return True
    found = splits_by_free(domain, least_order)
    return isinstance(found, Gap) or found.pays(settings.split_least)
