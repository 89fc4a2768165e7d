"""Keeps the allocation ratio of every compute host in Placement at what its newest plan leaves room for."""

from __future__ import annotations

import logging
import math
import random
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from memhint.objects.epoch import epoch_rank
from memhint.objects.provider import SAME, Inventory, Provider, ProviderRecord, Tenure
from memhint.openstack.errors import NotThere, OpenStackError, Outdated
from memhint.planner.capacity_write import Decision, DecisionReason, HostCapacity, WriterSettings, decide
from memhint.planner.claims import canonical, rightful
from memhint.store.capacities import Capacities
from memhint.store.errors import StoreError

LOG = logging.getLogger(__name__)
TRIES = 10  # of one write, when somebody else changes the provider in between
UNDONE = "uninstall has not come to its end here: run memhint openstack uninstall again"
_UNKNOWN = 1.0  # the ratio that is put back where nobody knows any more which one was found
_SLICE = 5.0  # seconds for hosts that can wait, before it is looked at whose ratio must fall by now
_PAUSE = 0.05  # seconds, the middle of the first pause between two of them


class PlacementApi(Protocol):
    """What is asked of Placement."""

    def provider(self, uuid: str) -> Provider:
        """A provider as it is now."""

    def set_ratio(self, uuid: str, inventory: Inventory, ratio: float) -> Inventory:
        """Change the ratio, unless the provider has changed since the inventory was read."""

    def mark(self, uuid: str, *, managed: bool) -> None:
        """Set or remove memhint's trait."""

    def marked(self, uuid: str) -> bool:
        """Whether it bears the trait."""


Tell = Callable[[str, str], None]
"""Takes a host's name and what happened to its capacity, for the record of events."""


@dataclass(frozen=True, slots=True)
class _ProviderReading:
    """A provider as Placement last said, when, and for which VMs."""

    provider: Provider
    at: float
    domains: frozenset[str]  # whom the plan counted then


@dataclass(frozen=True, slots=True)
class _Left:
    """What this process wrote last, and for which plan. A database that has lost commits may not know it any more."""

    plan: tuple[int, int]
    adopted: float
    written: float | None
    intended: float | None


@dataclass(slots=True)
class _Round:
    """How far a round is."""

    seen: set[str] = field(default_factory=set)  # providers that had their turn
    asked: set[str] = field(default_factory=set)  # providers whose name was asked for
    named_all: bool = True  # whether no name was left for the next slice


class _Gone(OpenStackError):
    """Placement does not have a provider of which no host speaks any more: its compute was taken away, or made anew."""


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
        self._views = views
        self._standings = standings
        self._placement = placement
        self._tell = tell
        self._settings = settings
        self._holder = holder
        self._write = write
        self._refresh = refresh
        self._clock = clock
        self._sleep = sleep
        self._stopped = stopped
        self._renewed = renewed
        self._known: dict[str, _ProviderReading] = {}
        self._done: dict[str, tuple[object, ...]] = {}  # the plan that was carried out last, by provider
        self._left: dict[str, _Left] = {}  # by provider
        self._marked: set[str] = set()  # providers that bear the trait, as far as this process has seen to it
        self._names: dict[str, str] = {}  # of providers, in Placement
        self._told: dict[str, str] = {}
        self._observed: dict[str, ProviderRecord] = {}  # what a trial found, by provider
        self._gone: dict[str, float] = {}  # when Placement had it no more, by provider
        self._absent: set[str] = set()  # providers that Placement did not have when they were read last
        self._undone: frozenset[str] = frozenset()  # providers on their way back at the last look
        self.counts: Counter[str] = Counter()  # written, outdated, overtaken, failed, conflict, refused, unverified

    def round(self) -> None:
        """Look at every host that has a provider, and write what has to be written. A host that fails is tried again.

        A ratio that must fall does not wait for the others, which may take minutes: these come in slices of time, and
        before each one all hosts are looked at again.

        :raises StoreError: when the database fails
        """
        begun = _Round()
        while not self._stopped() and not self._slice(begun):
            pass

    def _slice(self, begun: _Round) -> bool:
        """A part of a round; whether it was the last one."""
        standings = {one.provider: one for one in self._standings.all()}
        self._say_undone(standings.values())
        views, unknown = self._rightful(self._views(), begun)
        for provider, standing in standings.items():
            # Its agent speaks of it no more, and so nothing vouches for its ratio.
            if provider not in views and provider not in unknown and self._may_be_there(standing):
                views[provider] = _silent(standing)
        lower = {one for one, view in views.items() if self._lowers(one, view, standings.get(one))}
        until: float | None = None
        for provider, view in sorted(views.items(), key=lambda one: one[0] not in lower):
            if self._stopped():  # with a Placement that hangs all of them would take many minutes
                return True
            if provider not in lower:
                if provider in begun.seen:
                    continue
                if until is None:  # the first one always has its turn, or some would never
                    until = self._clock() + _SLICE
                elif self._clock() >= until:
                    return False
            begun.seen.add(provider)
            try:
                self._one(provider, view, standings.get(provider))
                self._see_to_mark(provider, standings.get(provider))
            except _Gone:
                self._known.pop(provider, None)
                if provider not in self._gone:
                    LOG.info("%s: its former provider %s is not in Placement any more", view.host, provider)
                self._gone[provider] = self._clock()
            except OpenStackError as error:
                self.counts["failed"] += 1
                self._known.pop(provider, None)
                self._say(view.host, f"not written, tried again: {error}")
            except StoreError:
                raise
            except Exception as error:  # one host's numbers must not end the round for all others
                self.counts["failed"] += 1
                self._known.pop(provider, None)
                LOG.exception("%s: its ratio is not written", view.host)
                self._say(view.host, f"not written, tried again: {type(error).__name__}")
        return begun.named_all

    def _say_undone(self, standings: Iterable[ProviderRecord]) -> None:
        """Say where uninstall stopped halfway: nobody lowers the ratio there. One that is at work is not met twice,
        as a rule.
        """
        undone = {one.provider: one for one in standings if one.tenure is Tenure.RELEASED and one.detail == UNDONE}
        for provider in self._undone & undone.keys():
            host = undone[provider].host
            if self._told.get(host) != UNDONE:
                self.counts["failed"] += 1
                self._say(host, UNDONE)
        self._undone = frozenset(undone)

    def _may_be_there(self, standing: ProviderRecord) -> bool:
        """Whether a provider of which nobody speaks is to be looked at: not what was given back, or is gone."""
        if standing.tenure is Tenure.RELEASED:
            return False
        gone = self._gone.get(standing.provider)
        return gone is None or self._clock() - gone >= self._refresh

    def _lowers(self, provider: str, view: HostCapacity, standing: ProviderRecord | None) -> bool:
        """Whether less is wanted than stands there, as far as is remembered: that must not wait for all others."""
        known = self._known.get(provider)
        if known is None or standing is None or not view.heard or not self._write:
            return False
        try:
            decision = decide(view, known.provider, standing, self._settings)
        except Exception:  # what to say of it is said when its turn comes
            LOG.debug("%s: it is not known what it wants", view.host, exc_info=True)
            return True
        return decision.ratio is not None and decision.ratio < known.provider.inventory.ratio

    def _one(self, provider: str, view: HostCapacity, standing: ProviderRecord | None) -> None:
        if not view.heard:
            return  # it may report all the time: what holds stays until that is known
        standing = standing or self._observed.get(provider)
        tenure = standing.tenure if standing is not None else None
        plan = _carried_out(view, tenure)
        known = self._known.get(provider)
        old = known is None or self._clock() - known.at >= self._refresh or known.domains != frozenset(view.memory)
        if self._done.get(provider) == plan and not old:
            return
        suspected: tuple[object, ...] | None = None
        for attempt in range(TRIES):
            if old or standing is None:
                known = self._read(provider, view)
                found = self._now(provider, view)
                if found is None:
                    return  # the next round sees who speaks for the provider now
                view, plan = found, _carried_out(found, tenure)
                # After the provider: what another controller has written meanwhile must not look like a stranger's.
                standing = self._came_to(provider, view, known.provider, new=standing is None)
            assert known is not None
            read = standing  # as the database has it
            lost = self._lost(provider, standing, known.provider)
            if lost is not None:
                if not view.stale and (epoch_rank(view.epoch), view.sequence) < lost.plan:
                    return  # this report is one of before; the next one tells what holds now
                standing = replace(standing, written=lost.written, intended=lost.intended)
            standing = replace(standing, host=view.host, epoch=view.epoch, sequence=view.sequence)
            decision = decide(view, known.provider, standing, self._settings)
            if decision.why is not DecisionReason.UNCHANGED and not old:
                old = True  # what is remembered is enough to leave a ratio alone, and for nothing else
                continue
            if decision.why is DecisionReason.FOREIGN:
                # Provider and standing are two reads, between which another controller may have written.
                seen = (known.provider.inventory.generation, standing.written, standing.intended)
                if seen != suspected:
                    suspected = seen
                    continue
            if lost is not None and decision.why is DecisionReason.UNCHANGED:
                self._tell_again(view, standing, read, known.provider, decision)
                return
            if self._write and decision.why is DecisionReason.UNCHANGED and _unsure(known.provider, standing):
                if not old:
                    old = True
                    continue
                if not self._begin(view, standing, standing.intended, read):
                    return
                if self._settled(provider, known.provider, standing) is None:
                    self._rest(attempt)
                    continue
                self._known.pop(provider, None)
                return  # the next round finds the ratio where it is wanted, and confirmed
            if decision.ratio is None or not self._write:
                self._leave(provider, view, standing, decision)
                self._done[provider] = plan
                return
            now = known.provider
            if standing.intended is not None and not _same(decision.ratio, standing.intended):
                # The store has room for one write that is not confirmed, and so there is never a second one.
                if not self._begin(view, standing, standing.intended, read):
                    return
                settled = self._settled(provider, now, standing)
                if settled is None:
                    self._rest(attempt)
                    continue
                now, standing = settled
                read = standing
            if not self._begin(view, standing, decision.ratio, read):
                return  # another controller writes, or there is a newer plan: the next round looks again
            self._left[provider] = _Left(_plan(standing), standing.adopted, standing.written, decision.ratio)
            if self._wrote(provider, view, now, standing, decision):
                self._done.pop(provider, None)
                return
            self._rest(attempt)
        raise OpenStackError(f"the provider changed {TRIES} times while its ratio was to be written")

    def _now(self, provider: str, view: HostCapacity) -> HostCapacity | None:
        """What the host tells at this moment: with many hosts a round is longer than a period, and the turn to write is
        for the newest report alone. None where the host speaks of another provider by now, or of none, or where nobody
        knows whether it is silent.
        """
        if self._renewed is None or not view.vouched:
            return view
        found = self._renewed(view.host)
        if found is None or not found.heard or found.provider is None or canonical(found.provider) != provider:
            return None
        return replace(found, provider=provider)

    def _read(self, provider: str, view: HostCapacity) -> _ProviderReading:
        try:
            known = _ProviderReading(self._placement.provider(provider), self._clock(), frozenset(view.memory))
        except NotThere as error:
            self._absent.add(provider)
            if not view.vouched:
                raise _Gone(str(error)) from error
            raise OpenStackError(
                f"Placement has no memory inventory of provider {provider}, which the host's compute_id names: {error}"
            ) from error
        self._gone.pop(provider, None)
        self._known[provider] = known
        self._names[provider] = known.provider.name
        return known

    def _begin(
        self, view: HostCapacity, standing: ProviderRecord, intended: float | None, read: ProviderRecord
    ) -> bool:
        if self._standings.begin(standing, intended, self._holder, read, vouched=view.vouched):
            return True
        self.counts["overtaken"] += 1
        return False

    def _wrote(
        self, provider: str, view: HostCapacity, known: Provider, standing: ProviderRecord, decision: Decision
    ) -> bool:
        """Write; False where the provider has changed since it was read."""
        assert decision.ratio is not None
        after = self._put(provider, known, standing, decision.ratio)
        if after is None:
            return False
        self._left[provider] = _Left(_plan(standing), standing.adopted, decision.ratio, None)
        self._standings.end(provider, self._holder, decision.ratio, decision.tenure, "")
        self._known[provider] = _ProviderReading(replace(known, inventory=after), self._clock(), frozenset(view.memory))
        self.counts["written"] += 1
        LOG.info("%s: allocation ratio %s (%s)", view.host, decision.detail, decision.why)
        self._tell(view.host, f"ratio {decision.detail} ({decision.why})")
        self._told.pop(view.host, None)
        if standing.written is None:
            self._mark(provider)
            self._known.pop(provider, None)  # a trait moves the generation
        return True

    def _settled(
        self, provider: str, known: Provider, standing: ProviderRecord
    ) -> tuple[Provider, ProviderRecord] | None:
        """Have a write that is not confirmed land no more, if it has not: write once more the ratio that is there.

        That moves the provider's generation, which each write names. None where the provider has changed since it was
        read, as by that very write.
        """
        ratio = known.inventory.ratio
        self._left[provider] = _Left(_plan(standing), standing.adopted, standing.written, standing.intended)
        after = self._put(provider, known, standing, ratio)
        if after is None:
            return None
        self._left[provider] = _Left(_plan(standing), standing.adopted, ratio, None)
        self._standings.end(provider, self._holder, ratio, standing.tenure, standing.detail)
        LOG.info("%s: a write of %g was not confirmed; the ratio is %g", standing.host, standing.intended, ratio)
        return replace(known, inventory=after), replace(standing, written=ratio, intended=None)

    def _put(self, provider: str, known: Provider, standing: ProviderRecord, ratio: float) -> Inventory | None:
        """The inventory after the write; None, and the turn given back, where Placement says that it has changed.

        ``intended`` stays then too: a request without an answer is repeated on its way, by keystoneauth or by a proxy,
        and where the first one was carried out it is the second that finds the provider changed.
        """
        try:
            return self._placement.set_ratio(provider, known.inventory, ratio)
        except Outdated:
            self.counts["outdated"] += 1
            self._standings.end(provider, self._holder, None, standing.tenure, standing.detail)
            return None
        except OpenStackError:
            self._standings.end(provider, self._holder, None, standing.tenure, standing.detail)
            raise

    def _came_to(self, provider: str, view: HostCapacity, known: Provider, *, new: bool) -> ProviderRecord:
        """The provider's standing. A trial keeps none: what it found may be gone when memhint begins to write.

        :param new: whether the database knew nothing of it
        """
        if self._write:
            if new and provider not in self._left and self._of_another_life(provider):
                return self._known_by_trait(provider, view, known)
            standing = self._standings.adopt(provider, view.host, self._found(provider, known))
            return self._made_anew(standing, known) if provider in self._absent else standing
        kept = self._standings.one(provider)
        self._observed[provider] = kept or ProviderRecord(provider, view.host, known.inventory.ratio)
        return self._observed[provider]

    def _of_another_life(self, provider: str) -> bool:
        """Whether memhint has written there, and the database knows nothing of that: it is new, or of before.

        The trait is read first: where another controller set it just now, its standing is there by then.
        """
        return self._placement.marked(provider) and self._standings.one(provider) is None

    def _known_by_trait(self, provider: str, view: HostCapacity, known: Provider) -> ProviderRecord:
        """The standing of a provider whose ratio is memhint's own, and never was the one that memhint came to."""
        now = known.inventory.ratio
        standing = self._standings.adopt(provider, view.host, _UNKNOWN, written=now)
        whose = f"the ratio {now:g} is memhint's own, which the database does not know any more"
        self._say(view.host, f"{whose}: {_UNKNOWN:g} is taken for the one that was found")
        return standing

    def _made_anew(self, standing: ProviderRecord, known: Provider) -> ProviderRecord:
        """The standing of a provider that was not there for a while. Where it came back without the trait it is a new
        one, as of a compute service that was deleted and begun again: its ratio is nova-compute's, and no stranger's.
        """
        provider, now = standing.provider, known.inventory.ratio
        if standing.tenure is not Tenure.RELEASED and not self._placement.marked(provider):
            self._marked.discard(provider)
            self._left.pop(provider, None)
            if not standing.ours(now):
                standing = self._standings.adopt(provider, standing.host, now, again=True)
                LOG.info("%s: its provider %s was made anew, with the ratio %g", standing.host, provider, now)
        self._absent.discard(provider)
        return standing

    def _found(self, provider: str, known: Provider) -> float:
        """The ratio that memhint came to, for a provider of which the database knows nothing, or nothing any more."""
        left, now = self._left.get(provider), known.inventory.ratio
        return left.adopted if left is not None and _same(now, left.written, left.intended) else now

    def _lost(self, provider: str, standing: ProviderRecord, known: Provider) -> _Left | None:
        """What this process has written and the database knows no more, where that tells whose the ratio is."""
        left, now = self._left.get(provider), known.inventory.ratio
        if left is None or left.plan <= _plan(standing) or standing.ours(now):
            return None
        return left if _same(now, left.written, left.intended) else None

    def _tell_again(
        self, view: HostCapacity, standing: ProviderRecord, read: ProviderRecord, known: Provider, decision: Decision
    ) -> None:
        """Have the database know again what this process wrote, and what of that is not confirmed."""
        provider = standing.provider
        if self._begin(view, standing, standing.intended, read):
            self._left[provider] = _Left(_plan(standing), standing.adopted, standing.written, standing.intended)
            self._standings.end(provider, self._holder, None, decision.tenure, "")
            self._told.pop(standing.host, None)
            ratio = known.inventory.ratio
            LOG.info("%s: the database knows again that the ratio %g is memhint's", standing.host, ratio)

    def _see_to_mark(self, provider: str, standing: ProviderRecord | None) -> None:
        """Once in this process's life: whoever wrote the ratio first may have failed, or ended, before the trait."""
        if standing is None or standing.tenure is not Tenure.MANAGED or standing.written is None:
            self._marked.discard(provider)
        elif self._write and provider not in self._marked:
            self._mark(provider)

    def _mark(self, provider: str) -> None:
        """Set the trait. A VM that is claimed at this moment is no reason to go without."""
        for attempt in range(TRIES):
            try:
                self._placement.mark(provider, managed=True)
                self._marked.add(provider)
                return
            except Outdated:
                self._rest(attempt)
        raise OpenStackError(f"the provider changed {TRIES} times while its trait was to be set")

    def _rest(self, attempt: int) -> None:
        self._sleep(random.uniform(0, 2 * _PAUSE * 2 ** min(attempt, 5)))

    def _leave(self, provider: str, view: HostCapacity, standing: ProviderRecord, decision: Decision) -> None:
        if decision.ratio is not None:
            self._say(view.host, f"would write the ratio {decision.detail} ({decision.why})")
            return
        if decision.tenure in (Tenure.CONFLICT, Tenure.REFUSED):
            self.counts[str(decision.tenure)] += 1
            self._say(view.host, f"left alone, {decision.tenure}: {decision.detail}")
        # Most hosts stand as they stood: for these the database is not asked.
        if self._write and (decision.tenure, decision.detail) != (standing.tenure, standing.detail):
            self._standings.note(provider, decision.tenure, decision.detail)

    def _rightful(self, views: Iterable[HostCapacity], begun: _Round) -> tuple[dict[str, HostCapacity], set[str]]:
        """Who speaks for each provider, and the providers of which that is not known just now."""
        claims: dict[str, list[HostCapacity]] = {}
        for one in views:
            if one.provider is None:
                continue
            provider = canonical(one.provider)
            if provider is None:
                self._unverified(one.host, f"{one.provider[:60]!r} is no UUID of a provider")
            else:
                claims.setdefault(provider, []).append(replace(one, provider=provider))
        found: dict[str, HostCapacity] = {}
        unknown: set[str] = set()
        until: float | None = None
        begun.named_all = True
        for provider, claimants in claims.items():
            if self._stopped():
                unknown.add(provider)
                continue
            if provider not in self._names:
                if provider in begun.asked:  # in vain
                    unknown.add(provider)
                    continue
                if until is None:
                    until = self._clock() + _SLICE
                elif self._clock() >= until:  # those whose names are known do not wait for the others
                    unknown.add(provider)
                    begun.named_all = False
                    continue
                begun.asked.add(provider)
            try:
                name = self._name(provider)
            except OpenStackError as error:
                unknown.add(provider)
                self.counts["failed"] += 1
                for one in claimants:
                    self._say(one.host, f"not written, tried again: {error}")
                continue
            mine, others = rightful(claimants, provider, name, self._settings.providers)
            for one in others:
                self._unverified(
                    one.host,
                    f"it claims provider {provider}, which is {name} in Placement; if the two are one, say so in"
                    " [openstack] providers",
                )
            # A host that was renamed is silent under its old name.
            mine = tuple(one for one in mine if not one.stale or not one.heard) or mine
            if len(mine) == 1:
                found[provider] = mine[0]
            names = ", ".join(sorted(one.host for one in mine))
            for one in mine if len(mine) > 1 else ():
                self._say(one.host, f"left alone, {DecisionReason.SHARED}: {names} claim provider {provider}")
        return found, unknown

    def _name(self, provider: str) -> str:
        """What Placement calls a provider.

        :raises OpenStackError: when Placement does not say
        """
        if provider not in self._names:
            try:
                found = self._placement.provider(provider)
            except NotThere as error:
                raise OpenStackError(
                    f"Placement has no memory inventory of provider {provider}, which the host's compute_id names:"
                    f" {error}"
                ) from error
            self._names[provider] = found.name
            # It tells whose ratio must fall. Before one is written the provider is read again, for it is old by then.
            self._known.setdefault(provider, _ProviderReading(found, -math.inf, frozenset()))
        return self._names[provider]

    def _unverified(self, host: str, why: str) -> None:
        self.counts[str(DecisionReason.UNVERIFIED)] += 1
        self._say(host, f"left alone, {DecisionReason.UNVERIFIED}: {why}")

    def _say(self, host: str, what: str) -> None:
        if self._told.get(host) != what:
            self._told[host] = what
            LOG.warning("%s: %s", host, what)
            self._tell(host, what)


def _carried_out(view: HostCapacity, tenure: Tenure | None) -> tuple[object, ...]:
    return view.epoch, view.sequence, view.stale, view.forced_ratio, tenure


def _plan(standing: ProviderRecord) -> tuple[int, int]:
    return epoch_rank(standing.epoch), standing.sequence


def _same(ratio: float, *others: float | None) -> bool:
    return any(one is not None and abs(one - ratio) < SAME for one in others)


def _unsure(known: Provider, standing: ProviderRecord) -> bool:
    """Whether a write without an answer may still land, where another ratio stands."""
    return standing.intended is not None and not _same(known.inventory.ratio, standing.intended)


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


def release(standing: ProviderRecord, standings: Capacities, placement: PlacementApi) -> str:
    """Put back the ratio that was found, where memhint's own is still there; what became of it, in words.

    Controllers may write meanwhile. Where it fails, or ends before its time, the standing says so.

    :param standing: as it was at any time before
    :raises OpenStackError: when Placement cannot be asked, or the provider changes all the time
    :raises StoreError: when the database fails
    """
    for _ in range(TRIES):
        try:
            # First of all no controller may begin any more. One that has begun has read the provider before: either
            # its write is seen here, and known by what it intended, or the one from here has it land no more.
            standing = standings.release(standing.provider, UNDONE) or standing
            known = placement.provider(standing.provider)
            now, said = known.inventory.ratio, "left as it is: somebody else has changed it"
            if standing.may_go_back(now):
                placement.set_ratio(standing.provider, known.inventory, standing.adopted)
                said = f"{now:g} -> {standing.adopted:g}"
            placement.mark(standing.provider, managed=False)
        except Outdated:
            continue
        except NotThere:
            said = "the provider is gone"
        standings.release(standing.provider, "uninstalled")
        return said
    raise OpenStackError(f"{standing.host}: the provider changes all the time; try again")
