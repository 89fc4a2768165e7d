"""What a host promised, against what came."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PromisedHour:
    """One hour of a host. Bytes; ``at`` is when it began, in unix seconds."""

    at: float
    promised: int  # the headroom as the hour began
    came: int  # what the host could have given at its worst in that hour; negative where it lacked memory

    @property
    def held(self) -> bool:
        """Whether all that was promised could have been given."""
        return self.came >= self.promised


@dataclass(frozen=True, slots=True)
class KeptPromises:
    """How a host kept its promises: hours that were judged since ``since`` (unix seconds), and those that held.

    ``worst`` are a few of them, the one that lacked most, or had least to spare, first.
    """

    hours: int
    held: int
    since: float
    worst: tuple[PromisedHour, ...] = ()


@dataclass(frozen=True, slots=True)
class HostPromises:
    """A host in some span of time: hours that were judged, and those in which its promise held."""

    host: str
    hours: int
    held: int
    lacked: int  # bytes by which it was most short of what it had promised; 0 where every hour held


@dataclass(frozen=True, slots=True)
class FleetPromises:
    """How all hosts together kept their promises since ``since`` (unix seconds).

    ``broken`` are the hosts of which an hour did not hold, those with the most such hours first.
    """

    hours: int
    held: int
    hosts: int  # of which an hour was judged
    since: float
    broken: tuple[HostPromises, ...] = ()


def fleet_promises(hosts: Iterable[HostPromises], since: float) -> FleetPromises:
    """All hosts together."""
    found = list(hosts)
    broken = sorted(
        (one for one in found if one.held < one.hours), key=lambda one: (one.held - one.hours, -one.lacked, one.host)
    )
    hours, held = sum(one.hours for one in found), sum(one.held for one in found)
    return FleetPromises(hours, held, len(found), since, tuple(broken))
