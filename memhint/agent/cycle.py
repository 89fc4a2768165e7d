"""The cycle: observe, plan, pull levers, publish. One call is one cycle; nothing in it waits for a guest or a QEMU."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from operator import itemgetter
from typing import Protocol

from memhint.agent.applied import Applied
from memhint.agent.dedup_worker import DedupNews, DedupWorker
from memhint.agent.deep_reads import DeepReads
from memhint.agent.figures import (
    ladder_of,
    migration,
    reclaimable_by_cache,
    reclaimable_by_dedup,
    reclaimable_by_reporting,
    returned,
)
from memhint.agent.guests import Guests
from memhint.agent.ladder_reclaims import LadderReclaims
from memhint.agent.nova_files import NovaFiles
from memhint.agent.observer import Observation, Observer, facts_of
from memhint.agent.policies import Policies
from memhint.agent.reclaims import Reclaims
from memhint.agent.runner import Runner
from memhint.bus.publisher import Publisher
from memhint.kernel.errors import KernelInterfaceError
from memhint.kernel.process import process_memory
from memhint.kernel.root import KernelRoot
from memhint.levers.dedup import DedupLever
from memhint.levers.qos import QosLever, QosTarget
from memhint.objects.domain import DomainObservation
from memhint.objects.estimate import DedupEstimate
from memhint.objects.gap import Gap, GapReason
from memhint.objects.ladder import Rung
from memhint.objects.lever import LeverName, LeverState
from memhint.objects.ownership import Ledger
from memhint.objects.policy import Mode, Policy, careful, effective
from memhint.objects.relief import Relief
from memhint.objects.report import POLICY, STALE_PERIODS, Cost, DomainReport, Report
from memhint.objects.tuning import GUESTS_OWN
from memhint.objects.verdict import Answer, Reason, Verdict
from memhint.pages.candidates import Candidate, candidates
from memhint.planner.dedup import DedupPlan
from memhint.planner.demand import on_pools
from memhint.planner.plan import Planned, PlannerState, plan
from memhint.planner.pressure import alarms
from memhint.planner.relief import CALM, PRESSED
from memhint.planner.settings import PlannerSettings
from memhint.store.errors import StoreError

LOG = logging.getLogger(__name__)


class Audit(Protocol):
    """Where every pull is written down."""

    def record(self, host: str, at: float, states: Iterable[LeverState]) -> None:
        """Levers whose verdict is another than before."""


class StateStore(Protocol):
    """Where the planner's memory outlives the agent."""

    def save(self, host: str, boot: str, state: PlannerState) -> None:
        """Keep it; ``boot`` names the host's boot, from which its clock counts."""


class Samples(Protocol):
    """Who looks at the VMs' pages, and estimates."""

    def want(self, candidates: Mapping[str, Candidate]) -> None:
        """The VMs that could merge now, by UUID."""

    def newest(self) -> DedupEstimate | None:
        """What is estimated; None where nothing is to be."""


@dataclass(frozen=True, slots=True)
class Identity:
    """Who reports. ``epoch`` is one life of the agent, ``boot`` one of the host."""

    host: str
    epoch: str
    boot: str
    version: str | None = None  # of memhint


@dataclass(frozen=True, slots=True)
class Parts:
    """What a cycle is made of."""

    observer: Observer
    policies: Policies
    guests: Guests
    reclaims: Reclaims
    deep: DeepReads
    samples: Samples
    dedup: DedupLever
    worker: DedupWorker
    balloon: Runner
    qos: QosLever
    swap_out: Runner
    nova: NovaFiles
    publisher: Publisher
    audit: Audit
    states: StateStore
    ledger: Ledger
    applied: Applied = field(default_factory=Applied)


class Cycle:
    """Runs cycles, and carries from one to the next what the planner remembers."""

    def __init__(
        self,
        identity: Identity,
        parts: Parts,
        settings: PlannerSettings,
        slot: int,
        state: PlannerState,
        *,
        allow_cross_tenant: bool = False,
        sequence: int = 0,
        dry_run: bool = False,
        wall: Callable[[], float] = time.time,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """:param slot: bytes of the VM that further places are counted in, overhead included."""
        self._identity = identity
        self._parts = parts
        self._settings = settings
        self._slot = slot
        self._allow_cross_tenant = allow_cross_tenant
        self._dry_run = dry_run
        self._wall = wall
        self._clock = clock
        self.state = state
        self.sequence = sequence
        self._policies: dict[str, Policy] = {}
        self._doubted: frozenset[str] = frozenset()  # UUIDs of VMs of which a wish could not be read
        self._told: dict[tuple[LeverName, str], Verdict] = {}
        self._seen: Observation | None = None
        hold_off = STALE_PERIODS * settings.period
        self._ladder_reclaims = LadderReclaims(parts.reclaims, settings.ladder.psi_limit, hold_off)
        self._classes: dict[str, LeverState] = {}

    def run(self) -> Report:
        """One cycle.

        :raises KernelInterfaceError: when not even the host's memory can be read
        """
        cpu, began, at = time.process_time(), self._clock(), self._wall()
        seen = self._parts.observer.look(at, began)
        self._seen = seen
        policies, unreadable, policy_gaps = self._policies_of(seen)
        if seen.complete or self._dry_run:
            self._parts.samples.want(candidates(seen.domains, policies, allow_cross_tenant=self._allow_cross_tenant))
        estimated = self._parts.samples.newest()
        planned = plan(
            seen.host,
            seen.domains,
            policies,
            self.state,
            began,
            self._settings,
            allow_cross_tenant=self._allow_cross_tenant,
            sight=seen.sight,
            estimated=estimated,
            unread=seen.unread | unreadable.keys(),
        )
        if not seen.complete:
            planned = self._merging_as_before(seen, policies, planned)
        if seen.listed:
            self.state = planned.state
            self._pull(seen, policies, planned, seen.unread | unreadable.keys())
        else:
            # Of VMs that nobody has named nothing is forgotten, and nothing is taken back.
            now = planned.state
            self.state = replace(self.state, at=now.at, headroom=now.headroom, ladder=now.ladder, counters=now.counters)
        self._merge(seen, planned)
        done = self._parts.applied.take()
        report = self._report(
            at,
            seen,
            policies,
            unreadable,
            planned,
            estimated,
            policy_gaps,
            time.process_time() - cpu,
            self._clock() - began,
        )
        self.sequence += 1
        self._tell(report, done)
        return report

    def inherit(self, before: Cycle) -> None:
        """Go on from what an earlier cycle of this process has seen: to undo, and where the store is away."""
        self._seen, self._policies, self._told = before._seen, before._policies, before._told
        self._doubted = before._doubted

    def alarmed(self) -> bool:
        """Whether the host is short of memory and no cycle has seen it yet: a look for between two cycles."""
        table = self._settings.ladder.rungs
        if self.state.ladder.entered or not table:
            return False
        try:
            return bool(alarms(self._parts.observer.glance(), table[0].limits))
        except KernelInterfaceError:
            return False  # the next cycle says so

    def undo(self, deadline: float) -> list[str]:
        """Put back what memhint changed, for at most ``deadline`` seconds; what could not be put back, in words."""
        if self._seen is None:
            return []
        if not self._seen.listed:
            left = self._undo_classes()
            if self._parts.ledger.all():
                left.append("libvirt has not said which VMs there are; the marks are kept for the next start")
            return left
        until = self._clock() + deadline
        self._parts.reclaims.close(deadline * 0.05)
        left = [f"reporting of {uuid}: {verdict}" for uuid, verdict in self._parts.guests.undo(deadline * 0.35).items()]
        if not self._parts.swap_out.stop(deadline * 0.05):
            left.append("swap_out: the kernel is still at a piece; nothing more follows, and nothing is to be put back")
        left += self._undo_classes()
        seen, lever = self._seen, self._parts.dedup
        shrunk = self._parts.balloon.undo(seen.domains, self._policies, deadline * 0.15)
        left += [f"balloon of {uuid or 'every VM'}: {verdict}" for uuid, verdict in shrunk.items()]
        if not self._parts.worker.settle(max(deadline * 0.1, (until - self._clock()) / 2)):
            return [*left, "dedup: a pass is still under way"]
        self._parts.worker.submit(None, lambda: ({}, lever.undo(seen.domains, seen.host)))
        if not self._parts.worker.settle(max(deadline * 0.3, until - self._clock())):
            return [*left, "dedup: separating the pages takes too long; the marks are kept for the next start"]
        verdict = self._parts.worker.news().host
        return left if verdict.ok else [*left, f"dedup: {verdict}"]

    def _undo_classes(self) -> list[str]:
        try:
            verdict = self._parts.qos.undo()
        except StoreError as error:
            return [f"qos: {error}"]
        # What somebody else has set since is theirs: there is nothing left to put back.
        return [f"qos: {verdict}"] if verdict.answer is Answer.FAILED else []

    def _policies_of(self, seen: Observation) -> tuple[dict[str, Policy], Mapping[str, str], tuple[Gap, ...]]:
        """What holds, of which VMs it cannot all be read, and why.

        With the store away it is what held before. Of a VM of which nothing held before, a denial may be what cannot
        be read.
        """
        facts = facts_of(seen.domains)
        unreadable: Mapping[str, str]
        try:
            found = self._parts.policies.update(facts)
            self._policies = {**self._policies, **found.policies}
            unreadable = found.unreadable
            self._doubted = frozenset(unreadable)
            gaps: tuple[Gap, ...] = ()
        except StoreError as error:
            LOG.error("the policies cannot be read, those known so far hold: %s", error)
            gaps = (Gap("policies", GapReason.UNREADABLE, str(error)),)
            self._doubted |= facts.keys() - self._policies.keys()
            self._policies = {**self._parts.policies.without_store(facts), **self._policies}
            unreadable = dict.fromkeys(self._doubted, str(error))
        present = {one.uuid for one in seen.domains}
        self._policies = {uuid: policy for uuid, policy in self._policies.items() if uuid in present}
        policies = {uuid: self._policies.get(uuid, careful(effective({}))) for uuid in present}
        return policies, {uuid: why for uuid, why in unreadable.items() if uuid in present}, gaps

    def _pull(
        self, seen: Observation, policies: Mapping[str, Policy], planned: Planned, unread: frozenset[str]
    ) -> None:
        relief = planned.plan.relief
        # Nothing is done to a VM of which nobody knows what holds for it: neither its policy nor what it is made of.
        known = [one for one in seen.domains if one.uuid not in unread]
        self._parts.guests.follow(known, policies, relief.tuning)
        self._parts.balloon.submit(relief.balloon, known, policies)
        if not self._dry_run:
            self._bring_back_caches(seen, relief)
            self._parts.reclaims.follow(known, policies)
        self._parts.swap_out.submit(relief.swap_out, known, policies)
        self._bring_to_class(known, policies, seen.host.pool)

    def _merge(self, seen: Observation, planned: Planned) -> None:
        lever, dedup = self._parts.dedup, planned.dedup
        if seen.complete:
            self._parts.worker.submit(
                dedup, lambda: lever.reconcile(dedup, seen.domains, seen.host, dry_run=self._dry_run)
            )
        elif not self._dry_run:
            self._parts.worker.submit(None, lambda: ({}, lever.hold()))

    def _merging_as_before(self, seen: Observation, policies: Mapping[str, Policy], planned: Planned) -> Planned:
        """The plan without a new word on who merges: KSM knows no groups, so that takes all VMs, and whose they are."""
        held = _held(seen)
        asking = {uuid: held for uuid, policy in policies.items() if policy.dedup is not Mode.OFF}
        dedup = DedupPlan(frozenset(), None, {**planned.dedup.verdicts, **asking}, self.state.dedup_auto)
        actions = tuple(one for one in planned.plan.actions if one.lever is not LeverName.DEDUP)
        state = replace(
            planned.state,
            dedup_project=self.state.dedup_project,
            dedup_auto=self.state.dedup_auto,
            dedup_pace=self.state.dedup_pace,
        )
        return Planned(replace(planned.plan, actions=actions), dedup, state)

    def _bring_back_caches(self, seen: Observation, relief: Relief) -> None:
        if Rung.CACHE in self.state.ladder.rungs:
            # What was asked of idle VMs would keep what is short from being asked for.
            self._ladder_reclaims.withdraw((one.uuid for one in seen.domains), f"{PRESSED} now", asked=CALM)
            self._ladder_reclaims.ask(relief.cache, self._wall(), PRESSED)
            return
        self._ladder_reclaims.ask_idle(relief.cache, self._wall(), CALM)
        always = Rung.CACHE in self._settings.ladder.always
        idle = self.state.idle if always else frozenset()
        busy = [one.uuid for one in seen.domains if one.process is None or one.process.instance not in idle]
        why = "the host is not under pressure" + (", and the VM not idle any more" if always else " any more")
        self._ladder_reclaims.withdraw(busy, why)
        self._ladder_reclaims.woke(busy)

    def _bring_to_class(self, domains: Sequence[DomainObservation], policies: Mapping[str, Policy], pool: int) -> None:
        """Every cycle anew: systemd may have put its own values back meanwhile."""
        overhead = self._settings.overhead
        targets = [
            # Explicit huge pages are charged to no memory cgroup: what is left to protect is the rest, and QEMU itself.
            QosTarget(one, policies[one.uuid].qos, one.facts.memory - on_pools(one, overhead) + overhead)
            for one in domains
        ]
        ceiling = pool - self._settings.reserve_of(pool)
        try:
            self._classes = self._parts.qos.reconcile(targets, ceiling, dry_run=self._dry_run)
        except StoreError as error:
            LOG.error("what holds for the classes goes on, the marks cannot be read: %s", error)

    def _classes_of(self, uuid: str) -> tuple[LeverState, ...]:
        state = self._classes.get(uuid)
        return () if state is None else (state,)

    def _report(
        self,
        at: float,
        seen: Observation,
        policies: Mapping[str, Policy],
        unreadable: Mapping[str, str],
        planned: Planned,
        estimated: DedupEstimate | None,
        gaps: Sequence[Gap],
        cpu: float,
        wall: float,
    ) -> Report:
        news = self._parts.worker.news()
        if not seen.complete:
            news = DedupNews(planned.dedup, host=_held(seen))
        elif news.plan != planned.dedup:
            news = DedupNews()  # what was said of another plan says nothing of this one
        merging, host_lever = self._parts.dedup.states(
            seen.domains, seen.host, planned.dedup, policies, news.verdicts, news.host
        )
        nova, nova_gaps = self._parts.nova.read()
        domains = []
        for one in seen.domains:
            policy = policies[one.uuid]
            tuning = planned.plan.relief.tuning.get(one.uuid, GUESTS_OWN)
            verdict = self._parts.guests.verdict(one.uuid, policy, tuning)
            reporting = self._parts.guests.lever.state(one, policy.reporting, verdict)
            cache = self._parts.reclaims.state(one)
            why = unreadable.get(one.uuid)
            shown = one if why is None else replace(one, gaps=(*one.gaps, Gap(POLICY, GapReason.MALFORMED, why)))
            domains.append(
                DomainReport(
                    shown,
                    policy,
                    returned(one, planned.state.past.get(one.uuid)),
                    (
                        reclaimable_by_reporting(one),
                        reclaimable_by_dedup(one, estimated),
                        reclaimable_by_cache(one, cache.observed),
                    ),
                    (
                        reporting,
                        merging[one.uuid],
                        cache,
                        *self._classes_of(one.uuid),
                        *self._parts.swap_out.states(one, policy),
                        *self._parts.balloon.states(one, policy),
                        *migration(one, planned.plan),
                    ),
                )
            )
        return Report(
            host=self._identity.host,
            epoch=self._identity.epoch,
            sequence=self.sequence,
            at=at,
            period=self._settings.period,
            slot=self._slot,
            observation=seen.host,
            domains=tuple(domains),
            levers=(host_lever, ladder_of(planned.plan)),
            plan=planned.plan,
            cost=Cost(cpu, wall, self._parts.deep.taken(), process_memory(KernelRoot(), os.getpid()).rss),
            gaps=(*seen.gaps, *gaps, *nova_gaps),
            nova=nova,
            slot_overhead=self._settings.overhead,
            dedup=estimated,
            agent=self._identity.version,
        )

    def _tell(self, report: Report, done: Sequence[tuple[float, LeverState]]) -> None:
        """:param done: what was done before the report was made, and when"""
        if self._dry_run:
            return
        self._parts.publisher.publish(report)
        levers = [*report.levers, *(state for one in report.domains for state in one.levers)]
        before, self._told = self._told, {(state.lever, state.subject): state.verdict for state in levers}
        news = [(report.at, state) for state in levers if before.get((state.lever, state.subject)) != state.verdict]
        for at, state in done:
            # Shown by this report or the one before, it is told already; else another pass has come over it since.
            key = (state.lever, state.subject)
            if state.verdict not in (before.get(key), self._told.get(key)):
                news.insert(0, (at, state))
        for _, one in news:
            LOG.info("%s of %s: wished %s, seen %s: %s", one.lever, one.subject, one.desired, one.observed, one.verdict)
        for at, told in groupby(sorted(news, key=itemgetter(0)), key=itemgetter(0)):
            self._record(report.host, at, [state for _, state in told])
        if not news:
            self._record(report.host, report.at, [])  # what waits from an earlier cycle
        try:
            self._parts.states.save(report.host, self._identity.boot, self.state)
        except StoreError as error:
            LOG.error("working on without the store: %s", error)

    def _record(self, host: str, at: float, states: Sequence[LeverState]) -> None:
        """Each by itself: what one does not get written down must not keep the next from being handed over."""
        try:
            self._parts.audit.record(host, at, states)
        except StoreError as error:
            LOG.error("working on without the store: %s", error)


def _held(seen: Observation) -> Verdict:
    """Why KSM rests."""
    names = ", ".join(one.name for one in seen.domains if one.uuid in seen.unread)
    why = f"the definition of {names} cannot be read" if seen.listed else "libvirt has not said which VMs there are"
    return Verdict(Answer.REFUSED, Reason.NOT_VERIFIED, f"nothing is merged any more while {why}")
