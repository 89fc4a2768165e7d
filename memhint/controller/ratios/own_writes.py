"""What this process wrote last and before: a database that has lost commits may not know it any more, and nova-compute
may write a ratio back that it has read a moment before.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from memhint.objects.epoch import epoch_rank
from memhint.objects.provider import SAME, Provider, ProviderRecord

BACK = 600.0  # seconds for which a ratio counts as memhint's own that another one of memhint's has taken the place of
_KEPT = 16  # of those, for each provider


@dataclass(frozen=True, slots=True)
class Wrote:
    """The last write to a provider, and for which plan."""

    plan: tuple[int, int]
    adopted: float
    written: float | None
    intended: float | None


class OwnWrites:
    """The last write to each provider, and the ratios that stood there before, for a while."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """:param clock: monotonic seconds"""
        self._clock = clock
        self._last: dict[str, Wrote] = {}
        self._earlier: dict[str, tuple[tuple[float, float], ...]] = {}  # until when each stood there, and the ratio

    def remember(self, standing: ProviderRecord, written: float | None, intended: float | None) -> None:
        """:param written: the ratio that is confirmed
        :param intended: the one that may be there without a confirmation
        """
        before = self._last.get(standing.provider)
        if before is not None and before.written is not None and not same(before.written, written):
            kept = self._earlier.get(standing.provider, ())[1 - _KEPT :]
            self._earlier[standing.provider] = (*kept, (self._clock(), before.written))
        self._last[standing.provider] = Wrote(plan_of(standing), standing.adopted, written, intended)

    def knows(self, provider: str) -> bool:
        """Whether this process has written there."""
        return provider in self._last

    def forget(self, provider: str) -> None:
        """It is another provider now."""
        self._last.pop(provider, None)
        self._earlier.pop(provider, None)

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

    def written_back(self, standing: ProviderRecord, known: Provider) -> Wrote | None:
        """The last write, as it would be with the ratio that stands there, where that is an earlier one of memhint's.

        nova-compute asks for a provider's inventories first and then for its aggregates and traits, and goes by the
        generation of the last answer. What is written in between is undone by its next write, with nobody the wiser.
        """
        now = known.inventory.ratio
        if standing.ours(now):
            return None
        now_ours = any(same(now, one) for until, one in self._earlier.get(standing.provider, ()) if self._fresh(until))
        return Wrote(plan_of(standing), standing.adopted, now, standing.intended) if now_ours else None

    def _fresh(self, until: float) -> bool:
        return self._clock() - until <= BACK


def plan_of(standing: ProviderRecord) -> tuple[int, int]:
    """The plan that was carried out: the rank of the agent's life, and the report's number in it."""
    return epoch_rank(standing.epoch), standing.sequence


def same(ratio: float, *others: float | None) -> bool:
    """Whether it is one of the others."""
    return any(one is not None and abs(one - ratio) < SAME for one in others)
