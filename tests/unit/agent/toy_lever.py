"""A lever in one file: what a new one has to bring. It keeps a number of bytes of each VM, and a mark of it.

`toy` runs it, as the one line does that `agent/build_levers.py` would have.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from memhint.agent.runners.runner import LeverRunner
from memhint.agent.runners.vm import VmRunner
from memhint.levers.lever import Stop, VmLever
from memhint.objects.domain import DomainObservation
from memhint.objects.lever import LeverName, LeverState, Observed
from memhint.objects.ownership import Ledger, Mark
from memhint.objects.policy import Policy
from memhint.objects.relief import Relief
from memhint.objects.verdict import Answer, Reason, Verdict
from memhint.objects.words import read_word

TOY_KNOB = "toy"


class ToyLever(VmLever):
    """See `VmLever`."""

    # A real one is a member of LeverName, with its declaration in objects/levers.py.
    name = read_word(LeverName, "toy")
    always_shown = True

    def __init__(self, ledger: Ledger, device: dict[str, int], wished: Callable[[Relief], Mapping[str, int]]) -> None:
        """:param device: what it changes, by UUID: in place of libvirt, a guest or the kernel"""
        self._ledger = ledger
        self._device = device
        self._wished = wished

    def wishes(self, relief: Relief) -> Mapping[str, int]:
        return self._wished(relief)  # of a real one the field of Relief that bears its name

    def state(self, domain: DomainObservation, policy: Policy, wish: int | None, verdict: Verdict | None) -> LeverState:
        seen = Observed.ON if domain.uuid in self._device else Observed.OFF
        return LeverState(self.name, domain.uuid, f"{wish or 0} B", seen, verdict or Verdict(Answer.UNCHANGED))

    def pull(
        self, domain: DomainObservation, policy: Policy, wish: int | None, *, dry_run: bool, stop: Stop
    ) -> Verdict:
        if wish == self._device.get(domain.uuid):
            return Verdict(Answer.UNCHANGED)
        if wish is not None and not policy.guest_actions:
            return Verdict(Answer.REFUSED, Reason.CONSENT, "guest_actions is deny for this VM")
        if dry_run:
            return Verdict(Answer.PLANNED, Reason.DRY_RUN, f"keep {wish} bytes")
        if wish is None:
            del self._device[domain.uuid]
            self._ledger.remove(domain.uuid, TOY_KNOB)
            return Verdict(Answer.APPLIED, detail="given back")
        # The mark first: whatever happens next, a successor knows what was there.
        self._ledger.put(Mark(domain.uuid, TOY_KNOB, "0", str(wish), "", 0.0))
        self._device[domain.uuid] = wish
        return Verdict(Answer.APPLIED)

    def owned(self) -> Collection[str]:
        return {mark.subject for mark in self._ledger.all() if mark.knob == TOY_KNOB}


def toy(
    ledger: Ledger,
    device: dict[str, int],
    wished: Callable[[Relief], Mapping[str, int]],
    note: Callable[[LeverState], None],
) -> LeverRunner:
    """What a lever's ``build`` makes, run."""
    return VmRunner(ToyLever(ledger, device, wished), note=note)
