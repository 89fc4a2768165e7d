"""Runs a lever of VMs on a thread of its own: one pass at a time, and what the last one brought."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from memhint.agent.runners.one_pass import OnePass
from memhint.agent.runners.runner import LeverRunner
from memhint.agent.view import HostSnapshot
from memhint.levers.lever import VmLever
from memhint.objects.domain import DomainObservation, DomainState
from memhint.objects.lever import LeverState
from memhint.objects.policy import Policy
from memhint.objects.verdict import Answer, Reason, Verdict
from memhint.planner.plan import Planned
from memhint.store.errors import StoreError

LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Pulled:
    """What came of a VM's last pull. ``instance`` is its QEMU process."""

    instance: str | None
    wish: int | None
    verdict: Verdict


class VmRunner(LeverRunner):
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
        """:param note: told of the outcome of every pull, before states show it"""
        self.names, self.share = (lever.name,), lever.share
        self._lever = lever
        self._dry_run = dry_run
        self._note = note
        self._ended = threading.Event()  # nothing more is begun
        self._stop = threading.Event()  # the pass under way ends before its next VM
        self._lock = threading.Lock()
        self._pass = OnePass(str(lever.name))
        self._rests: frozenset[str | None] | None = None
        """The processes that ran in the last pass, if it was asked for nothing, and had nothing to give back."""
        self._unknown: StoreError | None = None  # why the last pass does not know what was taken
        self._pulled: Mapping[str, _Pulled] = {}

    def pull(self, view: HostSnapshot, planned: Planned) -> None:
        """Begin a pass. In nearly every cycle there is nothing to do.

        Who is wished nothing of any more is given back what was taken.
        """
        if view.seen.listed:
            self._lever.knows(view.seen.domains)
            wishes = self._lever.wishes(planned.plan.relief)
            domains, policies = view.known, view.policies
            if not self._ended.is_set() and (wishes or self._brought(view) or not self._rested(domains)):
                self._pass.begin(lambda: self._run(wishes, domains, policies))

    def states(self, view: HostSnapshot, planned: Planned) -> Iterable[LeverState]:
        """What came of each VM's last pull, or whether it could be pulled."""
        for one in view.seen.domains:
            policy = view.policies[one.uuid]
            with self._lock:
                pulled = self._pulled.get(one.uuid)
            if pulled is not None and pulled.instance == _instance(one):
                yield self._lever.state(one, policy, pulled.wish, pulled.verdict)
            elif self._lever.shown(one):
                yield self._lever.state(one, policy, None, None)

    def undo(self, view: HostSnapshot, deadline: float) -> list[str]:
        """Give back everything; the pass under way ends after the VM that it is at."""
        if not view.seen.listed:
            return []
        name = self._lever.name
        self._stop.set()
        if not self._pass.settle(deadline / 2):
            return [f"{name} of every VM: a pass is still under way"]
        self._stop.clear()
        # Of all VMs: whatever holds for one of which that cannot be read, what was taken is given back.
        if not self._pass.begin(lambda: self._run({}, view.seen.domains, view.policies)):
            return [f"{name} of every VM: no thread could be started"]
        if not self._pass.settle(deadline / 2):
            return [f"{name} of every VM: giving back takes too long"]
        if self._unknown is not None:
            return [f"{name} of every VM: what was taken is not known: {self._unknown}"]
        # What was taken of a VM that is shut off has ended with its process.
        off = {one.uuid for one in view.seen.domains if one.state is DomainState.SHUTOFF}
        with self._lock:
            return [
                f"{name} of {uuid}: {one.verdict}"
                for uuid, one in self._pulled.items()
                if not one.verdict.ok or (one.verdict.answer is Answer.PENDING and uuid not in off)
            ]

    def settle(self, timeout: float) -> bool:
        """Wait for the pass under way."""
        return self._pass.settle(timeout)

    def inherit(self, before: Self) -> None:
        """Wait for its pass, instead of beginning one beside it, and go on from what came of its last."""
        self._pass = before._pass
        with before._lock:
            self._pulled = before._pulled

    def close(self) -> None:
        """Begin nothing more; the pass under way ends after the VM that it is at."""
        self._ended.set()
        self._stop.set()

    def _rested(self, domains: Sequence[DomainObservation]) -> bool:
        """Whether none is new here: one may have brought something along, which is taken up once it runs."""
        return self._rests is not None and _running(domains) <= self._rests

    def _brought(self, view: HostSnapshot) -> bool:
        """Whether a domain still carries what it brought: it may have been taken up after the last pass."""
        return any(mark.knob in self._lever.travels for marks in view.seen.marks.values() for mark in marks)

    def _run(
        self, wishes: Mapping[str, int], domains: Sequence[DomainObservation], policies: Mapping[str, Policy]
    ) -> None:
        self._rests = self._unknown = None  # until the pass has come to its end
        try:
            owned = self._lever.owned()
        except StoreError as error:
            LOG.error("what %s took is not known now: %s", self._lever.name, error)
            self._unknown = error
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
        self._rests = None if wishes or owned else _running(domains)
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


def _running(domains: Sequence[DomainObservation]) -> frozenset[str | None]:
    return frozenset(_instance(one) for one in domains if one.state is DomainState.RUNNING and one.defined)
