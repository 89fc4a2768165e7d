"""The rung `swap_out`: cold memory of idle VMs goes to disk swap."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from memhint.objects.domain import DomainObservation
from memhint.objects.ladder import Rung
from memhint.planner.cold import Cold, ColdSettings, next_cold
from memhint.planner.relief.candidate import Candidate
from memhint.planner.settings import LadderSettings, PlannerSettings


def swap_outs(candidates: Iterable[Candidate], shortage: int, settings: LadderSettings) -> dict[str, int]:
    """Bytes to send to swap of each VM, the largest first, until what is short is covered."""
    found: dict[str, int] = {}
    left = shortage
    holders = [(one.domain.process.rss, one) for one in candidates if one.may_swap and one.domain.process]
    for rss, one in sorted(holders, key=lambda holder: (-holder[0], holder[1].uuid)):
        if left <= 0:
            break
        most = min(left, int(rss * settings.swap_out_step_percent / 100), rss - one.policy.minimum)
        if most > 0:
            found[one.uuid] = most
            left -= most
    return found


def next_known(
    before: Mapping[str, Cold], domains: Iterable[DomainObservation], elapsed: float | None, settings: PlannerSettings
) -> Mapping[str, Cold]:
    """What is known to rest, by QEMU process: nothing, unless what rests goes to swap on a calm host, too."""
    if Rung.SWAP_OUT not in settings.ladder.always:
        return {}
    return next_cold(before, domains, elapsed, settings.of(ColdSettings))
