"""Keeps the allocation ratio of every compute host in Placement at what its newest plan leaves room for."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from memhint.controller.ratios.adoption import Adoption
from memhint.controller.ratios.claims import SLICE, Progress, ProviderClaims
from memhint.controller.ratios.host_events import HostEvents, Tell
from memhint.controller.ratios.marks import Marks
from memhint.controller.ratios.own_writes import OwnWrites
from memhint.controller.ratios.placement_api import Pauses, PlacementApi
from memhint.controller.ratios.readings import ProviderGone, ProviderReadings
from memhint.controller.ratios.release import UNDONE
from memhint.controller.ratios.turn import RatioTurn
from memhint.objects.provider import ProviderRecord, Tenure
from memhint.openstack.errors import OpenStackError
from memhint.planner.capacity_write import HostCapacity, WriterSettings
from memhint.store.capacities import Capacities
from memhint.store.errors import StoreError

LOG = logging.getLogger(__name__)

FALLS_TRIED = 2  # that a ratio which must fall has in one round: each may take as long as Placement is waited for


class CapacityWriter:
    """One round after the other; it keeps nothing that another controller would need while the database keeps it."""

    def __init__(
        self,
        views: Callable[[], Sequence[HostCapacity]],
        standings: Capacities,
        placement: PlacementApi,
        tell: Tell,
        settings: WriterSettings,
        holder: str,
        *,
        write: bool,
        refresh: float,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        stopped: Callable[[], bool] = lambda: False,
        renewed: Callable[[str], HostCapacity | None] | None = None,
    ) -> None:
        """:param holder: a name of this process that no other controller has
        :param write: False to say only what would be written
        :param refresh: seconds after which a provider is read again without a reason
        :param stopped: whether to leave the providers that are left to the next round
        :param renewed: a host by its name, as it tells when its turn comes; None: as ``views`` had it
        """
        self.counts: Counter[str] = Counter()  # written, outdated, overtaken, failed, conflict, refused, unverified
        self._views = views
        self._standings = standings
        self._clock = clock
        self._stopped = stopped
        self._undone: frozenset[str] = frozenset()  # providers on their way back at the last look
        self._events = events = HostEvents(tell)
        self._readings = readings = ProviderReadings(placement, refresh, clock)
        pauses, own = Pauses(sleep), OwnWrites(clock)
        self._marks = marks = Marks(placement, pauses, write=write)
        self._claims = ProviderClaims(readings, events, settings.providers, self.counts, clock, stopped)
        self._turn = RatioTurn(
            standings=standings,
            placement=placement,
            readings=readings,
            adoption=Adoption(
                standings=standings,
                placement=placement,
                readings=readings,
                own=own,
                marks=marks,
                events=events,
                write=write,
            ),
            own=own,
            marks=marks,
            events=events,
            pauses=pauses,
            settings=settings,
            counts=self.counts,
            holder=holder,
            write=write,
            renewed=renewed,
        )

    def round(self) -> None:
        """Look at every host that has a provider, and write what has to be written. A host that fails is tried again.

        A ratio that must fall does not wait for the others, which may take minutes: these come in slices of time, and
        before each one all hosts are looked at again.

        :raises StoreError: when the database fails
        """
        begun = Progress()
        while not self._stopped() and not self._slice(begun):
            pass

    def _slice(self, begun: Progress) -> bool:
        """A part of a round; whether it was the last one."""
        standings = {one.provider: one for one in self._standings.all()}
        self._say_undone(standings.values())
        views, unknown = self._claims.judge(self._views(), begun)
        for provider, standing in standings.items():
            # Its agent speaks of it no more, and so nothing vouches for its ratio.
            if provider not in views and provider not in unknown and self._may_be_there(standing):
                views[provider] = _silent(standing)
        lower = {
            one
            for one, view in views.items()
            if begun.failed[one] < FALLS_TRIED and self._turn.lowers(one, view, standings.get(one))
        }
        until: float | None = None
        for provider, view in sorted(views.items(), key=lambda one: one[0] not in lower):
            if self._stopped():  # with a Placement that hangs all of them would take many minutes
                return True
            if provider not in lower:
                if provider in begun.seen:
                    continue
                if until is None:  # the first one always has its turn, or some would never
                    until = self._clock() + SLICE
                elif self._clock() >= until:
                    return False
            begun.seen.add(provider)
            if not self._one(provider, view, standings.get(provider)):
                begun.failed[provider] += 1
        return begun.named_all

    def _one(self, provider: str, view: HostCapacity, standing: ProviderRecord | None) -> bool:
        """One provider's turn; False where it failed. That ends it for no other one, unless the database fails."""
        try:
            self._turn.take(provider, view, standing)
            self._marks.see_to(provider, standing)
            return True
        except ProviderGone:
            self._readings.gone(provider, view.host)
            return True
        except OpenStackError as error:
            self._failed(provider, view.host, str(error))
        except StoreError:
            raise
        except Exception as error:  # one host's numbers must not end the round for all others
            LOG.exception("%s: its ratio is not written", view.host)
            self._failed(provider, view.host, type(error).__name__)
        return False

    def _failed(self, provider: str, host: str, why: str) -> None:
        self.counts["failed"] += 1
        self._readings.forget(provider)
        self._events.hindered(host, f"not written, tried again: {why}")

    def _say_undone(self, standings: Iterable[ProviderRecord]) -> None:
        """Say where uninstall stopped halfway: nobody lowers the ratio there. One that is at work is not met twice,
        as a rule.
        """
        undone = {one.provider: one for one in standings if one.tenure is Tenure.RELEASED and one.detail == UNDONE}
        for provider in self._undone & undone.keys():
            host = undone[provider].host
            if self._events.last(host) != UNDONE:
                self.counts["failed"] += 1
                self._events.hindered(host, UNDONE)
        self._undone = frozenset(undone)

    def _may_be_there(self, standing: ProviderRecord) -> bool:
        """Whether a provider of which nobody speaks is to be looked at: not what was given back, or is gone."""
        return standing.tenure is not Tenure.RELEASED and self._readings.may_be_there(standing.provider)


def _silent(standing: ProviderRecord) -> HostCapacity:
    return HostCapacity(
        standing.host,
        standing.provider,
        None,
        stale=True,
        headroom=0,
        slot=0,
        slot_overhead=0,
        epoch=standing.epoch,
        sequence=standing.sequence,
        vouched=False,
    )
