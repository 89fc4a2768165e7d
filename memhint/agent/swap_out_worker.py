"""The swap-out lever on a thread of its own: the kernel may write to the disk for as long as a pull has patience."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence

from memhint.agent.one_pass import OnePass
from memhint.levers.swap_out import SwapOutLever, SwapOutTarget
from memhint.objects.domain import DomainObservation
from memhint.objects.lever import LeverState
from memhint.objects.policy import Policy
from memhint.objects.verdict import Answer, Reason, Verdict

LOG = logging.getLogger(__name__)


class SwapOutWorker:
    """One pass at a time over the VMs that the pressure ladder names; a cycle that finds one under way leaves it."""

    def __init__(
        self,
        lever: Callable[[Callable[[], bool]], SwapOutLever],
        *,
        dry_run: bool = False,
        note: Callable[[LeverState], None] = lambda state: None,
    ) -> None:
        """:param lever: makes the lever, given what it asks whether to stop
        :param note: told of every outcome of a pull
        """
        self._note = note
        self._stop = threading.Event()
        self._lever = lever(self._stop.is_set)
        self._dry_run = dry_run
        self._lock = threading.Lock()
        self._pass = OnePass("swap-out")
        self._news: dict[str, tuple[str, Verdict]] = {}  # by domain, of one QEMU process

    def submit(
        self, asked: Mapping[str, int], domains: Sequence[DomainObservation], policies: Mapping[str, Policy]
    ) -> bool:
        """Begin to take these bytes, by domain UUID, unless a pass is under way or the worker was told to stop.

        Asking for nothing forgets what was taken before: from then on a VM's state says whether it could be.
        """
        if self._stop.is_set() or self._pass.under_way:
            return False
        if not asked:
            with self._lock:
                self._news = {}
            return False
        targets = [
            (SwapOutTarget(one, policies[one.uuid].swap_out), asked[one.uuid]) for one in domains if one.uuid in asked
        ]
        return self._pass.begin(lambda: self._run(targets))

    def state(self, domain: DomainObservation, policy: Policy) -> LeverState:
        """The lever of one VM: what came of the last pull, or whether it could be pulled."""
        target = SwapOutTarget(domain, policy.swap_out)
        with self._lock:
            pulled = self._news.get(domain.uuid)
        same = pulled is not None and domain.process is not None and pulled[0] == domain.process.instance
        verdict = pulled[1] if pulled is not None and same and target.allowed else self._lever.probe(target)
        return self._lever.state(target, verdict)

    def settle(self, timeout: float) -> bool:
        """Wait for the pass under way, ``timeout`` seconds at most; whether none is left."""
        return self._pass.settle(timeout)

    def stop(self, timeout: float) -> bool:
        """Take nothing more, and wait ``timeout`` seconds at most; whether the pass under way has ended."""
        self._stop.set()
        return self.settle(timeout)

    def _run(self, targets: Sequence[tuple[SwapOutTarget, int]]) -> None:
        for target, size in targets:
            if self._stop.is_set():
                return
            verdict = self._pull(target, size)
            self._note(self._lever.state(target, verdict))
            if target.domain.process is not None:
                with self._lock:
                    self._news[target.domain.uuid] = (target.domain.process.instance, verdict)

    def _pull(self, target: SwapOutTarget, size: int) -> Verdict:
        try:
            return self._lever.pull(target, size, dry_run=self._dry_run).verdict
        except Exception as error:  # a defect here must show as a verdict
            LOG.exception("the swap-out lever failed")
            return Verdict(Answer.FAILED, Reason.KERNEL, f"{type(error).__name__}: {error}")
