"""One provider's turn: read it, decide, and write its ratio, among controllers that may do the same."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from memhint.controller.ratios.adoption import Adoption
from memhint.controller.ratios.host_events import HostEvents
from memhint.controller.ratios.marks import Marks
from memhint.controller.ratios.own_writes import OwnWrites, Wrote, same
from memhint.controller.ratios.placement_api import TRIES, Pauses, PlacementApi
from memhint.controller.ratios.readings import ProviderReadings
from memhint.objects.epoch import epoch_rank
from memhint.objects.provider import Inventory, Provider, ProviderRecord, Tenure
from memhint.openstack.errors import OpenStackError, Outdated
from memhint.planner.capacity_write import Decision, DecisionReason, HostCapacity, WriterSettings, decide
from memhint.planner.claims import canonical
from memhint.store.capacities import Capacities

LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Found:
    """What a turn goes by: the host's report, the provider, and how memhint stands to it."""

    view: HostCapacity
    known: Provider
    standing: ProviderRecord  # with what this process knows to have written
    read: ProviderRecord  # as the database has it
    decision: Decision

    @property
    def target(self) -> float | None:
        """The ratio that is to stand there, be it there already. None: it is left alone, whichever it is."""
        if self.decision.why is DecisionReason.UNCHANGED:
            return self.known.inventory.ratio
        return self.decision.ratio

    @property
    def unsure(self) -> bool:
        """Whether a write without an answer may still land, where another ratio is to stand."""
        intended = self.standing.intended
        return intended is not None and self.target is not None and not same(self.target, intended)


@dataclass(slots=True, kw_only=True)
class RatioTurn:
    """Gives each provider its turn."""

    standings: Capacities
    placement: PlacementApi
    readings: ProviderReadings
    adoption: Adoption
    own: OwnWrites
    marks: Marks
    events: HostEvents
    pauses: Pauses
    settings: WriterSettings
    counts: Counter[str]
    holder: str  # a name of this process that no other controller has
    write: bool  # False: it is only said what would be written
    renewed: Callable[[str], HostCapacity | None] | None  # a host as it tells now; None: it is as the round had it
    done: dict[str, tuple[object, ...]] = field(init=False, default_factory=dict)  # the last plan, by provider

    def lowers(self, provider: str, view: HostCapacity, standing: ProviderRecord | None) -> bool:
        """Whether less is wanted than stands there, as far as is remembered: that must not wait for all others."""
        known = self.readings.last(provider)
        if known is None or standing is None or not view.heard or not self.write:
            return False
        try:
            decision = decide(view, known, standing, self.settings)
        except Exception:  # what to say of it is said when its turn comes
            LOG.debug("%s: it is not known what it wants", view.host, exc_info=True)
            return True
        return decision.ratio is not None and decision.ratio < known.inventory.ratio

    def take(self, provider: str, view: HostCapacity, standing: ProviderRecord | None) -> None:
        """Write what has to be written.

        :param standing: as the database had it just before; None: it knows nothing of the provider
        :raises OpenStackError: when Placement cannot be asked, or the provider changes all the time
        :raises StoreError: when the database fails
        """
        if not view.heard:
            return  # it may report all the time: what holds stays until that is known
        standing = standing or self.adoption.observed(provider)
        tenure = standing.tenure if standing is not None else None
        reread = self.readings.old(provider, view)
        if self.done.get(provider) == _plan(view, tenure) and not reread:
            return
        suspected: tuple[object, ...] | None = None
        for attempt in range(TRIES):
            known = self.readings.last(provider)
            if reread or standing is None or known is None:
                known = self.readings.read(provider, view)
                newest = self._newest(provider, view)
                if newest is None:
                    return  # the next round sees who speaks for the provider now
                view = newest
                # After the provider: what another controller has written meanwhile must not look like a stranger's.
                standing = self.adoption.come_to(view, known, new=standing is None)
            lost = self.own.lost(standing, known) or self.own.written_back(standing, known)
            if lost is not None and not view.stale and (epoch_rank(view.epoch), view.sequence) < lost.plan:
                return  # this report is one of before; the next one tells what holds now
            found = self._found(view, known, standing, lost)
            decision = found.decision
            if decision.why is not DecisionReason.UNCHANGED and not reread:
                reread = True  # what is remembered is enough to leave a ratio alone, and for nothing else
                continue
            if decision.why is DecisionReason.FOREIGN:
                # Provider and standing are two reads, between which another controller may have written.
                seen = (known.inventory.generation, found.standing.written, found.standing.intended)
                if seen != suspected:
                    suspected = seen
                    continue
            if lost is not None and decision.why is DecisionReason.UNCHANGED:
                self._tell_again(found)
                return
            if self.write and found.unsure:
                # The store has room for one write that is not confirmed, and so there is never a second one.
                if not reread:
                    reread = True
                    continue
                if not self._begin(found, found.standing.intended):
                    return
                settled = self._settle(found)
                if settled is None:
                    self.pauses.after(attempt)
                    continue
                found = settled
                if decision.why is DecisionReason.UNCHANGED:
                    self.readings.forget(provider)
                    return  # the next round finds the ratio where it is wanted, and confirmed
            if decision.ratio is None or not self.write:
                self._leave(found)
                self.done[provider] = _plan(view, tenure)
                return
            if not self._begin(found, decision.ratio):
                return  # another controller writes, or there is a newer plan: the next round looks again
            if self._carry_out(found, decision.ratio):
                self.done.pop(provider, None)
                return
            self.pauses.after(attempt)
        raise OpenStackError(f"the provider changed {TRIES} times while its ratio was to be written")

    def _newest(self, provider: str, view: HostCapacity) -> HostCapacity | None:
        """What the host tells at this moment: with many hosts a round is longer than a period, and the turn to write is
        for the newest report alone. None where the host speaks of another provider by now, or of none, or where nobody
        knows whether it is silent.
        """
        if self.renewed is None or not view.vouched:
            return view
        found = self.renewed(view.host)
        if found is None or not found.heard or found.provider is None or canonical(found.provider) != provider:
            return None
        return replace(found, provider=provider)

    def _found(self, view: HostCapacity, known: Provider, read: ProviderRecord, lost: Wrote | None) -> _Found:
        standing = read
        if lost is not None:
            standing = replace(standing, written=lost.written, intended=lost.intended)
        standing = replace(standing, host=view.host, epoch=view.epoch, sequence=view.sequence)
        return _Found(view, known, standing, read, decide(view, known, standing, self.settings))

    def _begin(self, found: _Found, intended: float | None) -> bool:
        vouched = found.view.vouched
        if self.standings.begin(found.standing, intended, self.holder, found.read, vouched=vouched):
            return True
        self.counts["overtaken"] += 1
        return False

    def _carry_out(self, found: _Found, ratio: float) -> bool:
        """Write; False where the provider has changed since it was read."""
        view, standing, decision = found.view, found.standing, found.decision
        provider = standing.provider
        self.own.remember(standing, standing.written, ratio)
        after = self._put(found, ratio)
        if after is None:
            return False
        self.own.remember(standing, ratio, None)
        self.standings.end(provider, self.holder, ratio, decision.tenure, "")
        self.readings.wrote(found.known, after, view)
        self.counts["written"] += 1
        self.events.written(view.host, decision.detail, decision.why)
        if standing.written is None:
            self.marks.set(provider)
            self.readings.forget(provider)  # a trait moves the generation
        return True

    def _settle(self, found: _Found) -> _Found | None:
        """Have a write that is not confirmed land no more, if it has not: write once more the ratio that is there.

        That moves the provider's generation, which each write names. None where the provider has changed since it was
        read, as by that very write.
        """
        standing, ratio = found.standing, found.known.inventory.ratio
        self.own.remember(standing, standing.written, standing.intended)
        after = self._put(found, ratio)
        if after is None:
            return None
        self.own.remember(standing, ratio, None)
        self.standings.end(standing.provider, self.holder, ratio, standing.tenure, standing.detail)
        LOG.info("%s: a write of %g was not confirmed; the ratio is %g", standing.host, standing.intended, ratio)
        settled = replace(standing, written=ratio, intended=None)
        return replace(found, known=replace(found.known, inventory=after), standing=settled, read=settled)

    def _put(self, found: _Found, ratio: float) -> Inventory | None:
        """The inventory after the write; None, and the turn given back, where Placement says that it has changed.

        ``intended`` stays then too: a request without an answer is repeated on its way, by keystoneauth or by a proxy,
        and where the first one was carried out it is the second that finds the provider changed.
        """
        standing = found.standing
        provider = standing.provider
        try:
            return self.placement.set_ratio(provider, found.known.inventory, ratio)
        except Outdated:
            self.counts["outdated"] += 1
            self.standings.end(provider, self.holder, None, standing.tenure, standing.detail)
            return None
        except OpenStackError:
            self.standings.end(provider, self.holder, None, standing.tenure, standing.detail)
            raise

    def _tell_again(self, found: _Found) -> None:
        """Have the database know that the ratio is memhint's, and what of its writes is not confirmed."""
        standing = found.standing
        if self._begin(found, standing.intended):
            self.own.remember(standing, standing.written, standing.intended)
            self.standings.end(standing.provider, self.holder, None, found.decision.tenure, "")
            self.events.clear(standing.host)
            ratio = found.known.inventory.ratio
            LOG.info("%s: the database knows again that the ratio %g is memhint's", standing.host, ratio)

    def _leave(self, found: _Found) -> None:
        host, standing, decision = found.view.host, found.standing, found.decision
        if decision.ratio is not None:
            self.events.hindered(host, f"would write the ratio {decision.detail} ({decision.why})")
            return
        if decision.tenure in (Tenure.CONFLICT, Tenure.REFUSED):
            self.counts[str(decision.tenure)] += 1
            self.events.hindered(host, f"left alone, {decision.tenure}: {decision.detail}")
        # Most hosts stand as they stood: for these the database is not asked.
        if self.write and (decision.tenure, decision.detail) != (standing.tenure, standing.detail):
            self.standings.note(standing.provider, decision.tenure, decision.detail)


def _plan(view: HostCapacity, tenure: Tenure | None) -> tuple[object, ...]:
    return view.epoch, view.sequence, view.stale, view.forced_ratio, tenure
