"""Runs a lever of the whole host on a thread of its own: one pass at a time, and what the last one brought."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from typing import Generic, Self, TypeVar

from memhint.agent.runners.one_pass import OnePass
from memhint.agent.runners.runner import LeverRunner
from memhint.agent.view import HostSnapshot
from memhint.levers.lever import HostLever, PassResult
from memhint.objects.lever import LeverState
from memhint.objects.verdict import Answer, Reason, Verdict
from memhint.planner.plan import Planned

LOG = logging.getLogger(__name__)
PlanT = TypeVar("PlanT")


class HostRunner(LeverRunner, Generic[PlanT]):
    """One lever whose plan takes all VMs of the host together, as who may merge with whom does.

    A cycle that finds a pass under way leaves it alone.
    """

    def __init__(
        self,
        lever: HostLever[PlanT],
        *,
        dry_run: bool = False,
        note: Callable[[LeverState], None] = lambda state: None,
    ) -> None:
        """:param note: told of every outcome of a pass once, before states show it"""
        self.names, self.share = (lever.name,), lever.share
        self._lever = lever
        self._dry_run = dry_run
        self._note = note
        self._last = _Last[PlanT](str(lever.name))
        self._earlier: tuple[HostLever[PlanT], ...] = ()  # of this process: one may have a pass under way still

    def pull(self, view: HostSnapshot, planned: Planned) -> None:
        """Begin a pass; while not all VMs are known, one that holds things as they are, and rests."""
        lever, plan, seen = self._lever, self._lever.plan_of(planned, view.seen.host), view.seen
        if view.missing is None:

            def work() -> PassResult:
                lever.knows(seen.arrivals)
                return lever.reconcile(plan, seen.domains, seen.host, dry_run=self._dry_run)

            self._begin(plan, work)
        elif not self._dry_run:
            self._begin(None, lambda: PassResult({}, lever.hold()))

    def arrived(self) -> None:
        """Tell the lever at once, whatever pass is under way."""
        if not self._dry_run:
            self._lever.arrived()

    def states(self, view: HostSnapshot, planned: Planned) -> Iterable[LeverState]:
        """What the last pass brought, where it was one of this very plan."""
        plan, (made_of, outcome) = self._lever.plan_of(planned, view.seen.host), self._last.read()
        if view.missing is not None:
            outcome = PassResult({}, self._lever.held(view.missing))
        elif made_of != plan:
            outcome = WAITING
        return self._lever.states(view.seen.domains, view.seen.host, plan, view.policies, outcome)

    def undo(self, view: HostSnapshot, deadline: float) -> list[str]:
        """Put back what was changed, once the pass under way has ended."""
        name, lever, seen = self._lever.name, self._lever, view.seen
        self._stopping()
        if not seen.listed:
            return []
        lever.interrupt()
        if not self._last.passes.settle(deadline / 2):
            return [f"{name}: a pass is still under way"]
        if not self._begin(None, lambda: PassResult({}, lever.undo(seen.domains, seen.host))):
            return [f"{name}: no thread could be started; the marks are kept for the next start"]
        if not self._last.passes.settle(deadline / 2):
            return [f"{name}: putting back takes too long; the marks are kept for the next start"]
        verdict = self._last.read()[1].host
        return [] if verdict.ok else [f"{name}: {verdict}"]

    def leave(self, deadline: float) -> None:
        """What an agent before this one began, the lever holds."""
        self._stopping()
        if self._begin(None, lambda: PassResult({}, self._lever.hold())):
            self._last.passes.settle(deadline)

    def settle(self, timeout: float) -> bool:
        """Wait for the pass under way."""
        return self._last.passes.settle(timeout)

    def inherit(self, before: Self) -> None:
        """Share its pass, for two never run beside each other, and what its lever knew."""
        self._last = before._last
        self._lever.inherit(before._lever)
        if before._last.passes.under_way:
            self._earlier = (*before._earlier, before._lever)

    def close(self) -> None:
        """Begin nothing more; a pass under way ends as early as it can."""
        self._lever.interrupt()

    def _stopping(self) -> None:
        """Of a pass that has outlived reloads the lever that began it has to know."""
        for lever in (*self._earlier, self._lever):
            lever.stopping()

    def _begin(self, plan: PlanT | None, work: Callable[[], PassResult]) -> bool:
        return self._last.passes.begin(lambda: self._run(plan, work))

    def _run(self, plan: PlanT | None, work: Callable[[], PassResult]) -> None:
        try:
            outcome = work()
        except Exception as error:  # a defect here must show as a verdict
            LOG.exception("the lever %s failed", self._lever.name)
            outcome = PassResult({}, Verdict(Answer.FAILED, Reason.HYPERVISOR, f"{type(error).__name__}: {error}"))
        # A lever for which it is not time yet gives what came of its last pass again.
        if outcome is not self._last.noted:
            for state in self._lever.outcomes(plan, outcome):
                self._note(state)
        if plan is not None:  # what holds in between does not make that another one
            self._last.noted = outcome
        self._last.write(plan, outcome)


WAITING = PassResult({}, Verdict(Answer.PENDING))
"""Of a plan of which no pass has ended."""


class _Last(Generic[PlanT]):
    """The pass under way, and the last that ended: the plan that it carried out, and what came of it."""

    def __init__(self, name: str) -> None:
        self.passes = OnePass(name)
        self.noted: PassResult | None = None  # of a plan, the last; for the pass under way alone
        self._lock = threading.Lock()
        self._of: tuple[PlanT | None, PassResult] = (None, WAITING)

    def read(self) -> tuple[PlanT | None, PassResult]:
        """The last that ended."""
        with self._lock:
            return self._of

    def write(self, plan: PlanT | None, outcome: PassResult) -> None:
        """Another one has ended."""
        with self._lock:
            self._of = (plan, outcome)
