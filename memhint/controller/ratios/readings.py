"""Providers as Placement last said, so that most rounds ask it nothing."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from memhint.controller.ratios.placement_api import PlacementApi
from memhint.objects.provider import Inventory, Provider
from memhint.openstack.errors import NotThere, OpenStackError
from memhint.planner.capacity_write import HostCapacity

LOG = logging.getLogger(__name__)

_SELDOM = 3600.0  # seconds between two looks for a provider that has long been gone


class ProviderGone(OpenStackError):
    """Placement does not have a provider of which no host speaks any more: its compute was taken away, or made anew."""


@dataclass(frozen=True, slots=True)
class _Reading:
    provider: Provider
    at: float
    domains: frozenset[str]  # the VMs that the plan counted then


@dataclass(frozen=True, slots=True)
class _Gone:
    """Placement did not have it."""

    at: float  # when it was asked last
    pause: float  # seconds until it is asked again


class ProviderReadings:
    """What Placement said of each provider, and when."""

    def __init__(self, placement: PlacementApi, refresh: float, clock: Callable[[], float]) -> None:
        """:param refresh: seconds after which a provider is read again without a reason"""
        self._placement = placement
        self._refresh = refresh
        self._clock = clock
        self._last: dict[str, _Reading] = {}
        self._names: dict[str, tuple[str, float]] = {}  # and when it was said
        self._gone: dict[str, _Gone] = {}
        self._absent: set[str] = set()  # what Placement did not have when it was read last

    def last(self, provider: str) -> Provider | None:
        """As it was read, or written, last."""
        found = self._last.get(provider)
        return None if found is None else found.provider

    def old(self, provider: str, view: HostCapacity) -> bool:
        """Whether it has to be read again: after a while, and when other VMs are there."""
        found = self._last.get(provider)
        return found is None or self._clock() - found.at >= self._refresh or found.domains != frozenset(view.memory)

    def read(self, provider: str, view: HostCapacity) -> Provider:
        """Ask Placement.

        :raises ProviderGone: when it is not there, and no report speaks of it
        :raises OpenStackError: when Placement cannot be asked, or does not have what a report speaks of
        """
        try:
            found = self._placement.provider(provider)
        except NotThere as error:
            self._absent.add(provider)
            if not view.vouched:
                raise ProviderGone(str(error)) from error
            raise _no_inventory(provider, error) from error
        self._gone.pop(provider, None)
        self._last[provider] = _Reading(found, self._clock(), frozenset(view.memory))
        self._names[provider] = found.name, self._clock()
        return found

    def wrote(self, known: Provider, after: Inventory, view: HostCapacity) -> None:
        """Remember what Placement said of a write."""
        self._last[known.uuid] = _Reading(replace(known, inventory=after), self._clock(), frozenset(view.memory))

    def forget(self, provider: str) -> None:
        """Have it read again before anything is written. What is remembered still tells whether its ratio must fall."""
        if found := self._last.get(provider):
            self._last[provider] = replace(found, at=-math.inf)

    def named(self, provider: str) -> bool:
        """Whether its name is known without a request."""
        return provider in self._names

    def name(self, provider: str) -> str:
        """What Placement calls it.

        :raises OpenStackError: when Placement does not say
        """
        if provider not in self._names:
            try:
                found = self._placement.provider(provider)
            except NotThere as error:
                raise _no_inventory(provider, error) from error
            self._names[provider] = found.name, self._clock()
            # It tells whose ratio must fall. Before one is written the provider is read again, for it is old by then.
            self._last.setdefault(provider, _Reading(found, -math.inf, frozenset()))
        return self._names[provider][0]

    def doubt(self, provider: str) -> None:
        """Have its name asked again in the next round, unless that is new: no host that claims it has this name."""
        if self._clock() - self._names[provider][1] >= self._refresh:
            del self._names[provider]

    def was_absent(self, provider: str) -> bool:
        """Whether Placement did not have it for a while, and nobody has looked since what it is now."""
        return provider in self._absent

    def is_back(self, provider: str) -> None:
        """It has been looked at."""
        self._absent.discard(provider)

    def gone(self, provider: str, host: str) -> None:
        """Leave it alone for a while: Placement does not have it."""
        self._last.pop(provider, None)
        before = self._gone.get(provider)
        if before is None:
            LOG.info("%s: its former provider %s is not in Placement any more", host, provider)
        # Those of hosts that were set up anew stay gone, and there are more of them each year.
        pause = self._refresh if before is None else min(2 * before.pause, max(_SELDOM, self._refresh))
        self._gone[provider] = _Gone(self._clock(), pause)

    def may_be_there(self, provider: str) -> bool:
        """Whether one of which nobody speaks is worth a request."""
        gone = self._gone.get(provider)
        return gone is None or self._clock() - gone.at >= gone.pause


def _no_inventory(provider: str, error: NotThere) -> OpenStackError:
    return OpenStackError(
        f"Placement has no memory inventory of provider {provider}, which the host's compute_id names: {error}"
    )
