"""KSM's own settings on this host: written with a mark each, paused, and put back."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence

from memhint.kernel import ksm
from memhint.kernel.errors import KernelInterfaceError
from memhint.kernel.root import KernelRoot
from memhint.objects.host import HostObservation
from memhint.objects.ownership import HOST, Ledger, Mark
from memhint.objects.verdict import Answer, Reason, Verdict

LOG = logging.getLogger(__name__)
# The mark's ``after`` of a knob that the advisor moves as it likes: whatever is found is memhint's doing.
ADVISED = "*"
_KNOBS = frozenset(ksm.KsmKnob)
# Nothing may merge while the rest goes back, and the kernel takes pages_to_scan only once the advisor is off.
_RESTORE_ORDER: Mapping[str, int] = {ksm.KsmKnob.RUN: 0, ksm.KsmKnob.PAGES_TO_SCAN: 2}


def is_ksm(mark: Mark) -> bool:
    """Whether a mark is of one of KSM's knobs."""
    return mark.subject == HOST and mark.knob in _KNOBS


class HostKsm:
    """The knobs below /sys/kernel/mm/ksm, as far as memhint owns them."""

    def __init__(
        self,
        root: KernelRoot,
        ledger: Ledger,
        wanted: Sequence[tuple[ksm.KsmKnob, str]],
        host_boot: str,
        now: Callable[[], float],
    ) -> None:
        """:param wanted: the knobs in the order in which they are written; ``run`` follows them
        :param host_boot: names this boot of the host; marks of another one are void
        """
        self._root = root
        self._ledger = ledger
        self._wanted = wanted
        self._advised = any(knob is ksm.KsmKnob.ADVISOR_MODE and value == "scan-time" for knob, value in wanted)
        self._host_boot = host_boot
        self._now = now

    def owned(self) -> bool:
        """Whether it was memhint that switched KSM on."""
        return self._ledger.get(HOST, ksm.KsmKnob.RUN) is not None

    def run(self, host: HostObservation, *, dry_run: bool) -> Verdict:
        """Write every knob that differs, and switch KSM on last."""
        changes = [(knob, value) for knob, value in self._wanted if self._differs(knob, value)]
        if host.ksm is not None and host.ksm.run != 1:
            changes.append((ksm.KsmKnob.RUN, "1"))
        if not changes:
            return Verdict(Answer.UNCHANGED)
        what = ", ".join(f"{knob}={value}" for knob, value in changes)
        if dry_run:
            return Verdict(Answer.PLANNED, Reason.DRY_RUN, f"write {what}")
        try:
            for knob, value in changes:
                self._write_marked(knob, value)
        except KernelInterfaceError as error:
            return Verdict(Answer.FAILED, Reason.KERNEL, str(error))
        return Verdict(Answer.APPLIED, Reason.NONE, what)

    def pause(self) -> None:
        """Stop scanning, if memhint began it. What is merged stays merged, and nothing more is."""
        if not self.owned():
            return
        try:
            ksm.write_knob(self._root, ksm.KsmKnob.RUN, "0")
        except KernelInterfaceError as error:
            LOG.error("KSM could not be stopped: %s", error)

    def restore(self) -> list[str]:
        """Put the knobs back, but leave to others what they changed since; what failed, in words."""
        problems = []
        mine = [mark for mark in self._ledger.all() if is_ksm(mark)]
        for mark in sorted(mine, key=lambda mark: _RESTORE_ORDER.get(mark.knob, 1)):
            knob = ksm.KsmKnob(mark.knob)
            try:
                seen = ksm.read_knob(self._root, knob)
                if mark.instance == self._host_boot and mark.after in (seen, ADVISED):
                    ksm.write_knob(self._root, knob, mark.before)
                self._ledger.remove(HOST, mark.knob)
            except KernelInterfaceError as error:
                problems.append(f"{knob}: {error}")
        return problems

    def _differs(self, knob: ksm.KsmKnob, value: str) -> bool:
        try:
            seen = ksm.read_knob(self._root, knob)
        except KernelInterfaceError:
            return False  # an older kernel: what it does not have is left alone
        if knob is ksm.KsmKnob.PAGES_TO_SCAN and self._advised:
            return False  # the advisor owns it
        return seen != value

    def _write_marked(self, knob: ksm.KsmKnob, value: str) -> None:
        if knob is ksm.KsmKnob.ADVISOR_MODE and value != "none":
            self._mark(ksm.KsmKnob.PAGES_TO_SCAN, ADVISED)
        self._mark(knob, value)
        ksm.write_knob(self._root, knob, value)

    def _mark(self, knob: ksm.KsmKnob, after: str) -> None:
        before = ksm.read_knob(self._root, knob)
        self._ledger.put(Mark(HOST, knob, before, after, self._host_boot, self._now()))
