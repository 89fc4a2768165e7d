"""The host's own rungs of the pressure ladder, on a thread: libvirt and the kernel may take their time."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence

from memhint.agent.one_pass import OnePass
from memhint.levers.balloon import BalloonAsked, BalloonLever
from memhint.objects.domain import DomainObservation
from memhint.objects.lever import LeverState
from memhint.objects.policy import Policy
from memhint.objects.relief import NO_RELIEF, Relief
from memhint.objects.verdict import Answer, Reason, Verdict
from memhint.store.errors import StoreError

LOG = logging.getLogger(__name__)


class ReliefWorker:
    """One pass at a time over the VMs that are asked for something, or have something to get back."""

    def __init__(
        self,
        balloon: BalloonLever,
        *,
        dry_run: bool = False,
        note: Callable[[LeverState], None] = lambda state: None,
    ) -> None:
        """:param note: told of every outcome of a pull"""
        self._balloon = balloon
        self._note = note
        self._dry_run = dry_run
        self._lock = threading.Lock()
        self._pass = OnePass("relief")
        self._nothing_to_do = False  # the last pass was asked for nothing and found nothing to give back
        self._news: dict[str, tuple[LeverState, ...]] = {}

    def news(self, uuid: str) -> tuple[LeverState, ...]:
        """The levers of one VM as the last finished pass left them; nothing for one that was not asked."""
        with self._lock:
            return self._news.get(uuid, ())

    def submit(self, relief: Relief, domains: Sequence[DomainObservation], policies: Mapping[str, Policy]) -> bool:
        """Begin a pass unless one is under way, or there is nothing to do: as in nearly every cycle."""
        if self._nothing_to_do and not relief.balloon:
            return False
        return self._pass.begin(lambda: self._run(relief, domains, policies))

    def undo(
        self, domains: Sequence[DomainObservation], policies: Mapping[str, Policy], deadline: float
    ) -> dict[str, Verdict]:
        """Give back everything, for at most ``deadline`` seconds; the verdicts of what could not be."""
        if not self.settle(deadline / 2):
            return {"": Verdict(Answer.FAILED, Reason.HYPERVISOR, "a pass is still under way")}
        self.submit(NO_RELIEF, domains, policies)
        if not self.settle(deadline / 2):
            return {"": Verdict(Answer.FAILED, Reason.HYPERVISOR, "giving back takes too long")}
        with self._lock:
            left = {uuid: state for uuid, states in self._news.items() for state in states if not state.verdict.ok}
        return {uuid: state.verdict for uuid, state in left.items()}

    def settle(self, timeout: float) -> bool:
        """Wait for the pass under way, ``timeout`` seconds at most; whether none is left."""
        return self._pass.settle(timeout)

    def _run(self, relief: Relief, domains: Sequence[DomainObservation], policies: Mapping[str, Policy]) -> None:
        try:
            owned = self._balloon.owned()
        except StoreError as error:
            LOG.error("what the balloon took is not known now: %s", error)
            return
        news: dict[str, tuple[LeverState, ...]] = {}
        for one in domains:
            states = []
            if one.uuid in relief.balloon or one.uuid in owned:
                size = relief.balloon.get(one.uuid)
                verdict = self._shrink(BalloonAsked(one, policies[one.uuid], size))
                states.append(self._balloon.state(one, size, verdict))
                self._note(states[-1])
            if states:
                news[one.uuid] = tuple(states)
        self._nothing_to_do = not relief.balloon and not owned
        with self._lock:
            self._news = news

    def _shrink(self, asked: BalloonAsked) -> Verdict:
        try:
            return self._balloon.pull(asked, dry_run=self._dry_run)
        except Exception as error:  # a defect here must show as a verdict
            LOG.exception("the balloon lever failed")
            return Verdict(Answer.FAILED, Reason.HYPERVISOR, f"{type(error).__name__}: {error}")
