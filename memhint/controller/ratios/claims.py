"""Who speaks for each provider: hosts claim one in their reports, and Placement says what it is called."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from memhint.controller.ratios.host_events import HostEvents
from memhint.controller.ratios.readings import ProviderReadings
from memhint.openstack.errors import OpenStackError
from memhint.planner.capacity_write import DecisionReason, HostCapacity
from memhint.planner.claims import canonical, rightful

SLICE = 5.0  # seconds for hosts that can wait, before it is looked at whose ratio must fall by now


@dataclass(slots=True)
class Progress:
    """How far a round is."""

    seen: set[str] = field(default_factory=set)  # providers that had their turn
    failed: Counter[str] = field(default_factory=Counter)  # turns that came to nothing, by provider
    asked: set[str] = field(default_factory=set)  # providers whose name was asked for
    named_all: bool = True  # whether no name was left for the next slice
    unverified: set[str] = field(default_factory=set)  # hosts whose claim counts for nothing


class ProviderClaims:
    """Judges who claims what."""

    def __init__(
        self,
        readings: ProviderReadings,
        events: HostEvents,
        said: Mapping[str, str],
        counts: Counter[str],
        clock: Callable[[], float],
        stopped: Callable[[], bool],
    ) -> None:
        """:param said: the operator's word, UUID of the provider by name of the host"""
        self._readings = readings
        self._events = events
        self._said = said
        self._counts = counts
        self._clock = clock
        self._stopped = stopped

    def judge(self, views: Iterable[HostCapacity], begun: Progress) -> tuple[dict[str, HostCapacity], set[str]]:
        """Who speaks for each provider, and the providers of which that is not known just now."""
        found: dict[str, HostCapacity] = {}
        unknown: set[str] = set()
        until: float | None = None
        begun.named_all = True
        for provider, claimants in self._by_provider(views, begun).items():
            if self._stopped():
                unknown.add(provider)
                continue
            if not self._readings.named(provider):
                if provider in begun.asked:  # in vain
                    unknown.add(provider)
                    continue
                if until is None:
                    until = self._clock() + SLICE
                elif self._clock() >= until:  # those whose names are known do not wait for the others
                    unknown.add(provider)
                    begun.named_all = False
                    continue
                begun.asked.add(provider)
            try:
                name = self._readings.name(provider)
            except OpenStackError as error:
                unknown.add(provider)
                self._counts["failed"] += 1
                for one in claimants:
                    self._events.hindered(one.host, f"not written, tried again: {error}")
                continue
            speaker = self._speaker(provider, name, claimants, begun)
            if speaker is not None:
                found[provider] = speaker
        return found, unknown

    def _by_provider(self, views: Iterable[HostCapacity], begun: Progress) -> dict[str, list[HostCapacity]]:
        claims: dict[str, list[HostCapacity]] = {}
        for one in views:
            if one.provider is None:
                continue
            provider = canonical(one.provider)
            if provider is None:
                self._unverified(begun, one.host, f"{one.provider[:60]!r} is no UUID of a provider")
            else:
                claims.setdefault(provider, []).append(replace(one, provider=provider))
        return claims

    def _speaker(
        self, provider: str, name: str, claimants: Sequence[HostCapacity], begun: Progress
    ) -> HostCapacity | None:
        """The one whose word counts; None where that is nobody, or more than one."""
        mine, others = rightful(claimants, provider, name, self._said)
        for one in others:
            self._unverified(
                begun,
                one.host,
                f"it claims provider {provider}, which is {name} in Placement; if the two are one, say so in"
                " [openstack] providers",
            )
        if not mine:  # it may have been given their name since
            self._readings.doubt(provider)
        # A host that was renamed is silent under its old name.
        mine = tuple(one for one in mine if not one.stale or not one.heard) or mine
        if len(mine) == 1:
            return mine[0]
        names = ", ".join(sorted(one.host for one in mine))
        for one in mine:
            self._events.hindered(one.host, f"left alone, {DecisionReason.SHARED}: {names} claim provider {provider}")
        return None

    def _unverified(self, begun: Progress, host: str, why: str) -> None:
        if host not in begun.unverified:
            begun.unverified.add(host)
            self._counts[str(DecisionReason.UNVERIFIED)] += 1
        self._events.hindered(host, f"left alone, {DecisionReason.UNVERIFIED}: {why}")
