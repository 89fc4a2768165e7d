"""What this process wrote last: a database that has lost commits may not know it any more."""

from __future__ import annotations

from dataclasses import dataclass

from memhint.objects.epoch import epoch_rank
from memhint.objects.provider import SAME, Provider, ProviderRecord


@dataclass(frozen=True, slots=True)
class Wrote:
    """The last write to a provider, and for which plan."""

    plan: tuple[int, int]
    adopted: float
    written: float | None
    intended: float | None


class OwnWrites:
    """The last write to each provider."""

    def __init__(self) -> None:
        self._last: dict[str, Wrote] = {}

    def remember(self, standing: ProviderRecord, written: float | None, intended: float | None) -> None:
        """:param written: the ratio that is confirmed
        :param intended: the one that may be there without a confirmation
        """
        self._last[standing.provider] = Wrote(plan_of(standing), standing.adopted, written, intended)

    def knows(self, provider: str) -> bool:
        """Whether this process has written there."""
        return provider in self._last

    def forget(self, provider: str) -> None:
        """It is another provider now."""
        self._last.pop(provider, None)

    def found(self, known: Provider) -> float:
        """The ratio that memhint came to, for a provider of which the database knows nothing, or nothing any more."""
        left, now = self._last.get(known.uuid), known.inventory.ratio
        return left.adopted if left is not None and same(now, left.written, left.intended) else now

    def lost(self, standing: ProviderRecord, known: Provider) -> Wrote | None:
        """What was written and the database knows no more, where that tells whose the ratio is."""
        left, now = self._last.get(standing.provider), known.inventory.ratio
        if left is None or left.plan <= plan_of(standing) or standing.ours(now):
            return None
        return left if same(now, left.written, left.intended) else None


def plan_of(standing: ProviderRecord) -> tuple[int, int]:
    """The plan that was carried out: the rank of the agent's life, and the report's number in it."""
    return epoch_rank(standing.epoch), standing.sequence


def same(ratio: float, *others: float | None) -> bool:
    """Whether it is one of the others."""
    return any(one is not None and abs(one - ratio) < SAME for one in others)
