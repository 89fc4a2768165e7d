"""The dedup lever on a thread of its own: QEMU walks all of a guest's memory when its merging is switched."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from memhint.agent.one_pass import OnePass
from memhint.objects.lever import LeverName, LeverState, Observed
from memhint.objects.ownership import HOST
from memhint.objects.verdict import Answer, Reason, Verdict
from memhint.planner.dedup import DedupPlan

LOG = logging.getLogger(__name__)
Outcome = tuple[dict[str, Verdict], Verdict]


@dataclass(frozen=True, slots=True)
class DedupNews:
    """What the last finished pass said, and the plan that it carried out."""

    plan: DedupPlan | None = None
    verdicts: dict[str, Verdict] = field(default_factory=dict)
    host: Verdict = field(default_factory=lambda: Verdict(Answer.PENDING))


class DedupWorker:
    """One pass at a time; a cycle that finds one under way leaves it alone."""

    def __init__(self, note: Callable[[LeverState], None] = lambda state: None) -> None:
        """:param note: told of every outcome of a pass"""
        self._note = note
        self._lock = threading.Lock()
        self._pass = OnePass("dedup")
        self._news = DedupNews()

    def news(self) -> DedupNews:
        """The last finished pass."""
        with self._lock:
            return self._news

    def submit(self, plan: DedupPlan | None, reconcile: Callable[[], Outcome]) -> bool:
        """Begin a pass unless one is under way."""
        return self._pass.begin(lambda: self._run(plan, reconcile))

    def settle(self, timeout: float) -> bool:
        """Wait for the pass under way, ``timeout`` seconds at most; whether none is left."""
        return self._pass.settle(timeout)

    def _run(self, plan: DedupPlan | None, reconcile: Callable[[], Outcome]) -> None:
        try:
            verdicts, host = reconcile()
        except Exception as error:  # a defect here must show as a verdict
            LOG.exception("the dedup lever failed")
            verdicts, host = {}, Verdict(Answer.FAILED, Reason.HYPERVISOR, f"{type(error).__name__}: {error}")
        with self._lock:
            self._news = DedupNews(plan, verdicts, host)
        members = plan.members if plan is not None else frozenset()
        for uuid, verdict in verdicts.items():
            self._note(_state(uuid, uuid in members, verdict))
        self._note(_state(HOST, bool(members), host))


def _state(subject: str, on: bool, verdict: Verdict) -> LeverState:
    """What a pass brought about: an outcome that was verified."""
    return LeverState(LeverName.DEDUP, subject, "on" if on else "off", Observed.ON if on else Observed.OFF, verdict)
