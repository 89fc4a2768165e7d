"""khugepaged: keep the host's kernel from filling again what was merged, recycled or finely reported.

It makes a huge page of 512 small ones even where up to ``max_ptes_none`` of them (511, as shipped) have no memory at
all, and gives them some. Then what was taken from a VM in pieces is back without the VM having touched it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from memhint.kernel.errors import KernelInterfaceError
from memhint.kernel.root import KernelRoot
from memhint.kernel.thp import read_max_ptes_none, write_max_ptes_none
from memhint.levers.lever import Outcome
from memhint.objects.domain import DomainObservation
from memhint.objects.host import HostObservation
from memhint.objects.lever import LeverName, LeverState, Observed
from memhint.objects.ownership import HOST, Ledger, Mark
from memhint.objects.pieces import Pieces
from memhint.objects.policy import Policy
from memhint.objects.verdict import Answer, Reason, Verdict

KNOB = "khugepaged max_ptes_none"
_NO_VMS: Mapping[str, Verdict] = {}


class KhugepagedLever:
    """How many absent pages of a huge page the kernel may fill, while levers take memory in pieces."""

    name = LeverName.KHUGEPAGED

    def __init__(
        self, root: KernelRoot, ledger: Ledger, host_boot: str, now: Callable[[], float], *, own: bool, most: int
    ) -> None:
        """:param host_boot: names this boot of the host; marks of another one are void
        :param own: whether memhint may set it
        :param most: absent pages of 512 that khugepaged may fill meanwhile
        """
        self._root = root
        self._ledger = ledger
        self._host_boot = host_boot
        self._now = now
        self._own = own
        self._most = most

    def reconcile(
        self, plan: Pieces, domains: Sequence[DomainObservation], host: HostObservation, *, dry_run: bool
    ) -> Outcome:
        """Hold it back while something takes memory in pieces, and put it back afterwards."""
        return Outcome(_NO_VMS, self._reconcile(plan, host, dry_run=dry_run))

    def hold(self) -> Verdict:
        """While not all VMs are known: as it is."""
        return Verdict(Answer.UNCHANGED)

    def held(self, missing: str) -> Verdict:
        """The same in words."""
        return Verdict(Answer.PENDING, Reason.NONE, f"as it is while {missing}")

    def undo(self, domains: Sequence[DomainObservation], host: HostObservation) -> Verdict:
        """Put it back."""
        return self._put_back(dry_run=False)

    def states(
        self,
        domains: Sequence[DomainObservation],
        host: HostObservation,
        plan: Pieces,
        policies: Mapping[str, Policy],
        outcome: Outcome,
    ) -> Iterable[LeverState]:
        """The host's."""
        value = host.thp.max_ptes_none if host.thp is not None else None
        seen = Observed.UNSUPPORTED if value is None else Observed.ON if value <= self._most else Observed.OFF
        yield LeverState(self.name, HOST, "on" if plan.by and self._own else "off", seen, outcome.host)

    def outcomes(self, plan: Pieces | None, outcome: Outcome) -> Iterable[LeverState]:
        """What a pass brought about."""
        on = plan is not None and bool(plan.by)
        yield LeverState(self.name, HOST, "on" if on else "off", Observed.ON if on else Observed.OFF, outcome.host)

    def _reconcile(self, plan: Pieces, host: HostObservation, *, dry_run: bool) -> Verdict:
        if not plan.by or host.thp is None or host.thp.enabled == "never":
            return self._put_back(dry_run=dry_run)
        try:
            mark = self._ledger.get(HOST, KNOB)
            if mark is not None and not self._own:
                return self._put_back(dry_run=dry_run)  # what it may not do any more it does not leave behind
            seen = read_max_ptes_none(self._root)
            if seen <= self._most:
                return Verdict(Answer.UNCHANGED)
            what = f"khugepaged may fill {seen} of 512 absent pages again while {', '.join(plan.by)} takes single ones"
            if not self._own:
                return Verdict(
                    Answer.UNCHANGED, Reason.OPT_OUT, f"{what}: set [khugepaged] own, or write a smaller one"
                )
            if mark is not None and mark.instance == self._host_boot and mark.before != str(seen):
                return Verdict(Answer.CONFLICT, Reason.OTHER_MANAGER, f"{what}: somebody has set that since")
            if dry_run:
                return Verdict(Answer.PLANNED, Reason.DRY_RUN, f"write {self._most} to max_ptes_none")
            self._ledger.put(Mark(HOST, KNOB, str(seen), str(self._most), self._host_boot, self._now()))
            write_max_ptes_none(self._root, self._most)
        except KernelInterfaceError as error:
            return Verdict(Answer.FAILED, Reason.KERNEL, str(error))
        return Verdict(Answer.APPLIED, Reason.NONE, f"max_ptes_none={self._most}, it was {seen}")

    def _put_back(self, *, dry_run: bool) -> Verdict:
        mark = self._ledger.get(HOST, KNOB)
        if mark is None:
            return Verdict(Answer.UNCHANGED)
        if dry_run:
            return Verdict(Answer.PLANNED, Reason.DRY_RUN, f"write {mark.before} to max_ptes_none again")
        try:
            # What stands there by now may be somebody else's, and another boot began with the kernel's own.
            mine = mark.instance == self._host_boot and read_max_ptes_none(self._root) == int(mark.after)
            if mine:
                write_max_ptes_none(self._root, int(mark.before))
        except KernelInterfaceError as error:
            return Verdict(Answer.FAILED, Reason.KERNEL, str(error))
        self._ledger.remove(HOST, KNOB)
        if not mine:
            return Verdict(Answer.UNCHANGED)
        return Verdict(Answer.APPLIED, Reason.NONE, f"max_ptes_none={mark.before} again")
