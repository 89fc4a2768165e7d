"""Runs a lever of VMs on a thread of its own: one pass at a time, and what the last one brought."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from memhint.agent.one_pass import OnePass
from memhint.levers.lever import VmLever
from memhint.objects.domain import DomainObservation
from memhint.objects.lever import LeverState
from memhint.objects.policy import Policy
from memhint.objects.verdict import Answer, Reason, Verdict
from memhint.store.errors import StoreError

LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Pulled:
    """What came of a VM's last pull. ``instance`` is its QEMU process."""

    instance: str | None
    wish: int | None
    verdict: Verdict


class Runner:
    """The passes of one lever, over the VMs that it is asked for or has to give something back to.

    A cycle that finds a pass under way leaves it alone; what it wishes then, the next one wishes again.
    """

    def __init__(
        self,
        lever: VmLever,
        *,
        dry_run: bool = False,
        note: Callable[[LeverState], None] = lambda state: None,
    ) -> None:
        """:param note: told of the outcome of every pull"""
        self._lever = lever
        self._dry_run = dry_run
        self._note = note
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._pass = OnePass(str(lever.name))
        self._rests = False  # the last pass was asked for nothing, and had nothing to give back
        self._pulled: Mapping[str, _Pulled] = {}

    def submit(
        self, wishes: Mapping[str, int], domains: Sequence[DomainObservation], policies: Mapping[str, Policy]
    ) -> bool:
        """Begin a pass for these wishes, in bytes by domain UUID. In nearly every cycle there is nothing to do.

        Who is wished nothing of any more is given back what was taken.
        """
        if self._stop.is_set() or (self._rests and not wishes):
            return False
        return self._pass.begin(lambda: self._run(wishes, domains, policies))

    def states(self, domain: DomainObservation, policy: Policy) -> tuple[LeverState, ...]:
        """The lever of one VM: what came of the last pull, or whether it could be pulled."""
        with self._lock:
            pulled = self._pulled.get(domain.uuid)
        if pulled is not None and pulled.instance == _instance(domain):
            return (self._lever.state(domain, policy, pulled.wish, pulled.verdict),)
        return (self._lever.state(domain, policy, None, None),) if self._lever.always_shown else ()

    def undo(
        self, domains: Sequence[DomainObservation], policies: Mapping[str, Policy], deadline: float
    ) -> dict[str, Verdict]:
        """Give back everything, for at most ``deadline`` seconds; by UUID, what could not be. "" is every VM."""
        if not self.settle(deadline / 2):
            return {"": Verdict(Answer.FAILED, Reason.HYPERVISOR, "a pass is still under way")}
        self.submit({}, domains, policies)
        if not self.settle(deadline / 2):
            return {"": Verdict(Answer.FAILED, Reason.HYPERVISOR, "giving back takes too long")}
        with self._lock:
            return {uuid: one.verdict for uuid, one in self._pulled.items() if not one.verdict.ok}

    def settle(self, timeout: float) -> bool:
        """Wait for the pass under way, ``timeout`` seconds at most; whether none is left."""
        return self._pass.settle(timeout)

    def stop(self, timeout: float) -> bool:
        """Begin nothing more, and wait ``timeout`` seconds at most; whether the pass under way has ended."""
        self._stop.set()
        return self.settle(timeout)

    def _run(
        self, wishes: Mapping[str, int], domains: Sequence[DomainObservation], policies: Mapping[str, Policy]
    ) -> None:
        try:
            owned = self._lever.owned()
        except StoreError as error:
            LOG.error("what %s took is not known now: %s", self._lever.name, error)
            return
        pulled: dict[str, _Pulled] = {}
        for one in domains:
            if self._stop.is_set():
                return
            if one.uuid in wishes or one.uuid in owned:
                wish, policy = wishes.get(one.uuid), policies[one.uuid]
                verdict = self._pull(one, policy, wish)
                self._note(self._lever.state(one, policy, wish, verdict))
                pulled[one.uuid] = _Pulled(_instance(one), wish, verdict)
                with self._lock:
                    self._pulled = {**self._pulled, one.uuid: pulled[one.uuid]}
        self._rests = not wishes and not owned
        with self._lock:
            self._pulled = pulled

    def _pull(self, domain: DomainObservation, policy: Policy, wish: int | None) -> Verdict:
        try:
            return self._lever.pull(domain, policy, wish, dry_run=self._dry_run, stop=self._stop.is_set)
        except Exception as error:  # a defect here must show as a verdict
            LOG.exception("the lever %s failed", self._lever.name)
            return Verdict(Answer.FAILED, Reason.HYPERVISOR, f"{type(error).__name__}: {error}")


def _instance(domain: DomainObservation) -> str | None:
    return None if domain.process is None else domain.process.instance
