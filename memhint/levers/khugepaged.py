"""khugepaged and defrag: the host kernel's settings for huge pages, which hold for all VMs alike.

khugepaged makes a huge page of 512 small ones even where up to ``max_ptes_none`` of them (511, as shipped) have no
memory at all, and gives them some. Then what was taken from a VM in pieces is back without the VM having touched it.
The rules for its pace and for ``defrag`` are in doc/thp.md.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from memhint.kernel.errors import KernelInterfaceError
from memhint.kernel.root import KernelRoot
from memhint.kernel.thp import ThpKnob, read_setting, write_setting
from memhint.levers.host_knob import HostKnob
from memhint.levers.lever import HostLever, LeverContext, PassResult
from memhint.objects.domain import DomainObservation
from memhint.objects.host import HostObservation
from memhint.objects.huge_host import NO_WAITING, HugeHost
from memhint.objects.lever import LeverName, LeverState, Observed
from memhint.objects.ownership import HOST, Ledger
from memhint.objects.policy import Policy
from memhint.objects.verdict import Answer, Reason, Verdict
from memhint.planner.huge_host import huge_host

if TYPE_CHECKING:
    from memhint.planner.plan import Planned

KNOB = "khugepaged max_ptes_none"
SLEEP_KNOB = "khugepaged scan_sleep_millisecs"
DEFRAG_KNOB = "transparent_hugepage defrag"
_NO_VMS: Mapping[str, Verdict] = {}
_DIRECT = frozenset({"always", "madvise", "defer+madvise"})
"""The words of `defrag` with which a VM's first touch may wait: QEMU advises huge pages for all of a guest's memory."""


class KhugepagedLever(HostLever[HugeHost]):
    """Holes that the kernel may fill, its pace, and whether first touches wait for huge pages."""

    name = LeverName.KHUGEPAGED
    share = 0.01

    def __init__(
        self,
        root: KernelRoot,
        ledger: Ledger,
        host_boot: str,
        now: Callable[[], float],
        *,
        own: bool,
        most: int,
        near: bool = False,
    ) -> None:
        """:param host_boot: names this boot of the host; marks of another one are void
        :param own: whether memhint may set any of it
        :param most: absent pages of 512 that khugepaged may fill while levers take memory in pieces
        :param near: whether small pages of the own node are better here than huge ones of another
        """
        self._near = near
        self._several = False  # nodes with memory, as of the last look that told
        self._own = own
        self._most = most

        def knob(name: str, setting: ThpKnob) -> HostKnob:
            return HostKnob(
                name,
                ledger,
                host_boot,
                now,
                partial(read_setting, root, setting),
                partial(write_setting, root, setting),
            )

        self._holes = knob(KNOB, ThpKnob.MAX_PTES_NONE)
        self._sleep = knob(SLEEP_KNOB, ThpKnob.SCAN_SLEEP)
        self._defrag = knob(DEFRAG_KNOB, ThpKnob.DEFRAG)

    def plan_of(self, planned: Planned, host: HostObservation) -> HugeHost:
        """By the rules, from what the plan asks of VMs, and by what was measured of this host.

        The nodes are counted again in each cycle, for one with memory may come later. Where they cannot be read, the
        last count holds.
        """
        plan = huge_host(planned)
        if host.numa:
            self._several = sum(node.total > 0 for node in host.numa) > 1
        far = self._near and self._several
        return replace(plan, defrag=NO_WAITING) if plan.defrag is None and far else plan

    def reconcile(
        self, plan: HugeHost, domains: Sequence[DomainObservation], host: HostObservation, *, dry_run: bool
    ) -> PassResult:
        """Bring the host to what is wished, and put back what is not wished any more."""
        off = host.thp is None or host.thp.enabled == "never"
        return PassResult(_NO_VMS, self._reconcile(HugeHost() if off else plan, dry_run=dry_run))

    def held(self, missing: str) -> Verdict:
        """While not all VMs are known: as it is."""
        return Verdict(Answer.PENDING, Reason.NONE, f"as it is while {missing}")

    def undo(self, domains: Sequence[DomainObservation], host: HostObservation) -> Verdict:
        """Put everything back."""
        return self._reconcile(HugeHost(), dry_run=False)

    def states(
        self,
        domains: Sequence[DomainObservation],
        host: HostObservation,
        plan: HugeHost,
        policies: Mapping[str, Policy],
        outcome: PassResult,
    ) -> Iterable[LeverState]:
        """The host's. Observed is whether khugepaged is kept from filling holes."""
        value = host.thp.max_ptes_none if host.thp is not None else None
        seen = Observed.UNSUPPORTED if value is None else Observed.ON if value <= self._most else Observed.OFF
        yield LeverState(self.name, HOST, "off" if plan.empty or not self._own else "on", seen, outcome.host)

    def outcomes(self, plan: HugeHost | None, outcome: PassResult) -> Iterable[LeverState]:
        """What a pass brought about."""
        on = plan is not None and not plan.empty
        yield LeverState(self.name, HOST, "on" if on else "off", Observed.ON if on else Observed.OFF, outcome.host)

    def _reconcile(self, plan: HugeHost, *, dry_run: bool) -> Verdict:
        return _joined([self._of_one(pull, dry_run) for pull in self._pulls(plan)])

    def _pulls(self, plan: HugeHost) -> Iterable[Callable[[bool], Verdict]]:
        yield lambda dry_run: self._hold_back(plan, dry_run) if plan.by else self._holes.put_back(dry_run=dry_run)
        yield (
            lambda dry_run: (
                self._pace(plan.scan_sleep, dry_run)
                if plan.scan_sleep is not None
                else self._sleep.put_back(dry_run=dry_run)
            )
        )
        yield (
            lambda dry_run: (
                self._wait(plan.defrag, dry_run) if plan.defrag is not None else self._defrag.put_back(dry_run=dry_run)
            )
        )

    def _of_one(self, pull: Callable[[bool], Verdict], dry_run: bool) -> Verdict:
        try:
            return pull(dry_run)
        except KernelInterfaceError as error:
            return Verdict(Answer.FAILED, Reason.KERNEL, str(error))

    def _hold_back(self, plan: HugeHost, dry_run: bool) -> Verdict:
        return self._holes.want(
            str(self._most),
            lambda seen: int(seen) <= self._most,
            own=self._own,
            why=f"khugepaged may fill {{}} of 512 absent pages again while {', '.join(plan.by)} takes single ones",
            advice="set [khugepaged] own, or write a smaller one",
            dry_run=dry_run,
        )

    def _pace(self, sleep: int, dry_run: bool) -> Verdict:
        return self._sleep.want(
            str(sleep),
            lambda seen: int(seen) <= sleep,
            own=self._own,
            why=f"khugepaged rests for {{}} ms between two rounds while VMs get huge pages again, {sleep} are wished",
            advice="set [khugepaged] own, or write a smaller one",
            dry_run=dry_run,
        )

    def _wait(self, word: str, dry_run: bool) -> Verdict:
        return self._defrag.want(
            word,
            lambda seen: seen not in _DIRECT,
            own=self._own,
            why="with defrag={} VMs wait for huge pages that the host does not have, or take them of another node",
            advice=f"set [khugepaged] own, or write {word}",
            dry_run=dry_run,
        )


def build(context: LeverContext) -> KhugepagedLever:
    """The lever of a host."""
    options = context.conf.khugepaged
    return KhugepagedLever(
        context.root,
        context.ledger,
        context.boot,
        time.time,
        own=options.own,
        most=options.max_ptes_none,
        near=options.far_huge_ratio > 1,
    )


def _joined(verdicts: Sequence[Verdict]) -> Verdict:
    """One answer for all: the first that is not ok, else the first that did or says something; every detail."""
    telling = [one for one in verdicts if one != Verdict(Answer.UNCHANGED)]
    if not telling:
        return Verdict(Answer.UNCHANGED)
    order = [*(one for one in telling if not one.ok), *(one for one in telling if one.answer is not Answer.UNCHANGED)]
    chosen = next(iter([*order, *telling]))
    return Verdict(chosen.answer, chosen.reason, "; ".join(one.detail for one in telling if one.detail))
