"""The cycle: observe, plan, pull levers, publish. One call is one cycle; nothing in it waits for a guest or a QEMU."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable

from memhint.agent.last_policies import LastPolicies
from memhint.agent.news import News
from memhint.agent.observer import Observation
from memhint.agent.parts import Identity, Parts
from memhint.agent.reporter import report_of
from memhint.agent.view import HostSnapshot
from memhint.kernel.errors import KernelInterfaceError
from memhint.kernel.process import process_held
from memhint.kernel.root import KernelRoot
from memhint.objects.estimate import DedupEstimate
from memhint.objects.lever import LeverState
from memhint.objects.report import Cost, Report
from memhint.pages.candidates import candidates
from memhint.planner.compaction import turns_vain
from memhint.planner.growth import GrowthTable
from memhint.planner.plan import Planned, plan
from memhint.planner.pressure import alarms
from memhint.planner.settings import PlannerSettings
from memhint.planner.state import PlannerState, unlisted
from memhint.store.errors import StoreError

LOG = logging.getLogger(__name__)


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
        self._dry_run = dry_run
        self._wall = wall
        self._clock = clock
        self.state = state
        self.sequence = sequence
        self._seen: Observation | None = None
        self._policies = LastPolicies(parts.policies)
        self._news = News(parts.publisher, parts.audit)

    def run(self) -> Report:
        """One cycle.

        :raises KernelInterfaceError: when not even the host's memory can be read
        """
        cpu, began, at = time.process_time(), self._clock(), self._wall()
        self._seen = self._parts.observer.look(at, began)
        view = self._policies.view(at, self._seen)
        estimated = self._estimated(view)
        growth = self._parts.growth()
        planned = self._plan(view, estimated, growth, began)
        self.state = planned.state if view.seen.listed else unlisted(self.state, planned.state)
        self._parts.marks.follow(view)
        for runner in self._parts.runners:
            runner.pull(view, planned)
        states = [state for runner in self._parts.runners for state in runner.states(view, planned)]
        done = self._parts.applied.take()  # after the states: what they show has been noted by then
        report = report_of(
            self._identity,
            self.sequence,
            self._settings,
            self._slot,
            view,
            planned,
            states,
            estimated,
            self._cost(time.process_time() - cpu, self._clock() - began),
            self._parts.nova.read(),
            growth.version if growth is not None else 0,
        )
        self.sequence += 1
        if not self._dry_run:
            self._tell(report, done)
        return report

    def inherit(self, before: Cycle) -> None:
        """Go on from what an earlier cycle of this process has seen: to undo, and where the store is away."""
        self._seen = before._seen
        self._policies.inherit(before._policies)
        self._news.inherit(before._news)

    def alarmed(self) -> bool:
        """Whether the host is short of memory, or VMs wait in vain, and no cycle has seen it yet.

        A look for between two cycles.
        """
        return self._runs_short() or self._waits_in_vain()

    def _waits_in_vain(self) -> bool:
        """Whether first touches wait for huge pages that do not come; looked at only where few are free."""
        before, at = self.state.compaction, self.state.at
        if at is None or not before.watched:
            return False
        try:
            seen = self._parts.observer.huge_waits()
        except KernelInterfaceError:
            return False
        return seen is not None and turns_vain(before, seen, self._clock() - at)

    def _runs_short(self) -> bool:
        table = self._settings.ladder.rungs
        if self.state.ladder.entered or not table:
            return False
        try:
            return bool(alarms(self._parts.observer.glance(), table[0].limits))
        except KernelInterfaceError:
            return False  # the next cycle says so

    def undo(self, deadline: float) -> list[str]:
        """Put back what memhint changed, for at most ``deadline`` seconds; what could not be put back, in words."""
        until, left = self._clock() + deadline, []
        if self._seen is None:
            # What the agent before this one left running, as KSM, must not go on with nobody there either.
            for runner in self._parts.runners:
                runner.leave(max(0.0, until - self._clock()))
            return self._kept("this agent has not looked at its host yet")
        view = self._policies.known(self._wall(), self._seen)
        kept_for_later = sum(runner.share for runner in self._parts.runners) * deadline
        for runner in reversed(self._parts.runners):
            # What the ones before did not need is there for all that follow.
            kept_for_later -= runner.share * deadline
            spare = until - self._clock() - kept_for_later
            try:
                left += runner.undo(view, max(runner.share * deadline, spare))
            except Exception as error:  # a defect in one must not keep the others from it
                name = ", ".join(runner.names) or type(runner).__name__
                LOG.exception("putting back failed: %s", name)
                left.append(f"{name}: {type(error).__name__}: {error}")
        # Without a list nobody has said which VMs there are.
        return left + ([] if view.missing is None or view.seen.listed else self._kept(view.missing))

    def _kept(self, why: object) -> list[str]:
        """That what is marked stays as it is, in words."""
        try:
            return [f"{why}; the marks are kept for the next start"] if self._parts.marks.all() else []
        except StoreError as error:
            return [f"what is left is not known: {error}"]

    def end(self) -> None:
        """Say that the host goes down in order: what it has earned outlives that, and so do definitions."""
        for runner in self._parts.runners:
            runner.host_ends()
        if self.state.at is None or self._dry_run:
            return  # it never planned in this boot: what is kept of the last one stays
        try:
            self._parts.states.save(self._identity.host, self._identity.boot, self.state, self._wall())
        except StoreError as error:
            LOG.error("what this host has earned will not outlive its boot: %s", error)

    def _estimated(self, view: HostSnapshot) -> DedupEstimate | None:
        """What merging would save. Whose VMs they are must be known before anybody looks at their pages."""
        if view.missing is None or self._dry_run:
            may = candidates(view.seen.domains, view.policies, self._settings)
            self._parts.samples.want(may)
        return self._parts.samples.newest()

    def _plan(
        self, view: HostSnapshot, estimated: DedupEstimate | None, growth: GrowthTable | None, now: float
    ) -> Planned:
        return plan(
            view.seen.host,
            view.seen.domains,
            view.policies,
            self.state,
            now,
            self._settings,
            sight=view.seen.sight,
            estimated=estimated,
            unread=view.unread,
            missing=view.missing_unnamed,
            growth=growth,
        )

    def _cost(self, cpu: float, wall: float) -> Cost:
        return Cost(cpu, wall, self._parts.deep.taken(), process_held(KernelRoot(), os.getpid()).rss)

    def _tell(self, report: Report, done: list[tuple[float, LeverState]]) -> None:
        self._news.tell(report, done)
        try:
            self._parts.states.save(report.host, self._identity.boot, self.state)
        except StoreError as error:
            LOG.error("working on without the store: %s", error)
