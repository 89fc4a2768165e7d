"""KSM's own settings on this host: written with a mark each, paused, and put back."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from memhint.kernel import ksm
from memhint.kernel.errors import InterfaceMissing, KernelInterfaceError
from memhint.kernel.root import KernelRoot
from memhint.levers.arrivals import Arrivals
from memhint.levers.ksm_flag import KsmFlag
from memhint.objects.ownership import HOST, Ledger, Mark, on_the_way
from memhint.objects.units import mib
from memhint.objects.verdict import Answer, Reason, Verdict

LOG = logging.getLogger(__name__)
# The mark's ``after`` of a knob that the advisor moves as it likes: whatever is found is memhint's doing.
ADVISED = "*"
_KNOBS = frozenset(ksm.KsmKnob)
# Nothing may merge while the rest goes back, and the kernel takes pages_to_scan only once the advisor is off.
_RESTORE_ORDER: Mapping[str, int] = {ksm.KsmKnob.RUN: 0, ksm.KsmKnob.PAGES_TO_SCAN: 2}
_STOPPED = "somebody has stopped KSM: it rests until 1 is written to ksm/run, or the agent starts again"
_NEWCOMER = "KSM rests: since the VMs were looked at, one has started, or got memory that may be merged"


def is_ksm(mark: Mark) -> bool:
    """Whether a mark is of one of KSM's knobs."""
    return mark.subject == HOST and mark.knob in _KNOBS


class HostKsm:
    """The knobs below /sys/kernel/mm/ksm, as far as memhint owns them."""

    def __init__(
        self,
        root: KernelRoot,
        ledger: Ledger,
        host_boot: str,
        now: Callable[[], float],
        arrivals: Arrivals,
    ) -> None:
        """:param host_boot: names this boot of the host; marks of another one are void
        :param arrivals: of VMs, and of memory to them; for one that was not looked at yet KSM is not switched on
        """
        self._root = root
        self._ledger = ledger
        self._host_boot = host_boot
        self._now = now
        self._arrivals = arrivals
        self._known = 0  # arrivals that the pass under way has looked at
        self._ended = False
        self._on = False  # by memhint, as far as this process knows: the ledger may not answer
        self._flag = KsmFlag(root, host_boot)
        self._flag_missed = False

    def knows(self, arrivals: int) -> None:
        """So many arrivals have been looked at: KSM may run over them, once all is done that the pass has to do."""
        self._known = arrivals

    def inherit(self, before: HostKsm) -> None:
        """Know what an earlier one of this process has switched on: where it rests since, others have stopped it."""
        self._on = before._on

    def end(self) -> None:
        """Never switch KSM on again. Waits for nothing: who pauses it now, too, has it rest for good."""
        self._ended = True

    def owned(self) -> bool:
        """Whether it was memhint that switched KSM on, in this boot of the host."""
        mark = self._ledger.get(HOST, ksm.KsmKnob.RUN)
        return mark is not None and mark.instance == self._host_boot

    def run(self, wanted: Sequence[tuple[ksm.KsmKnob, str]], *, dry_run: bool) -> Verdict:
        """Write every knob that differs, in the order given, put back what is wanted no more, and switch KSM on.

        Not where somebody else has stopped it since memhint switched it on.
        """
        if not dry_run:
            self._hear_of_rest()
        if self._stopped_by_others():
            if not dry_run:
                self._flag.take_down()
            return Verdict(Answer.CONFLICT, Reason.OTHER_MANAGER, _STOPPED)
        advised = (ksm.KsmKnob.ADVISOR_MODE, "scan-time") in wanted
        # the advisor owns pages_to_scan
        steered = [one for one in wanted if not (advised and one[0] is ksm.KsmKnob.PAGES_TO_SCAN)]
        changes = [(knob, value) for knob, value in steered if self._differs(knob, value)]
        # By what stands there now: it may have been paused since the host was looked at.
        switch_on = [(ksm.KsmKnob.RUN, "1")] if self._differs(ksm.KsmKnob.RUN, "1") else []
        if not dry_run and not switch_on and self.owned():
            with self._arrivals.lock:
                if not self._differs(ksm.KsmKnob.RUN, "1"):
                    self._put_flag_up()  # an agent of a version without it may have switched KSM on
        kept = {ksm.KsmKnob.RUN, *(knob for knob, _ in wanted), *([ksm.KsmKnob.PAGES_TO_SCAN] if advised else [])}
        dropped = [mark for mark in self._marks() if mark.knob not in kept]
        if not changes and not dropped and not switch_on:
            self._on = self.owned()  # an agent before this one may have switched it on
            return Verdict(Answer.UNCHANGED)
        words = [f"{knob}={value}" for knob, value in changes]
        words += [f"{mark.knob} as it was" for mark in dropped]
        words += [f"{knob}={value}" for knob, value in switch_on]
        what = ", ".join(words)
        if dry_run:
            return Verdict(Answer.PLANNED, Reason.DRY_RUN, f"write {what}")
        try:
            for knob, value in changes:
                self._write_marked(knob, value)
            for mark in dropped:
                self._put_back(mark)
            for knob, value in switch_on:
                with self._arrivals.lock:
                    if self._ended:
                        return Verdict(Answer.PENDING, Reason.INTERRUPTED, "KSM rests: the agent stops")
                    if self._arrivals.count != self._known:
                        return Verdict(Answer.PENDING, Reason.NOT_VERIFIED, _NEWCOMER)
                    self._write_marked(knob, value)
        except KernelInterfaceError as error:
            return Verdict(Answer.FAILED, Reason.KERNEL, str(error))
        return Verdict(Answer.APPLIED, Reason.NONE, what)

    def _stopped_by_others(self) -> bool:
        with self._arrivals.lock:  # a pause under way has stopped it, and not said so yet
            mark = self._ledger.get(HOST, ksm.KsmKnob.RUN)
            if not self._on or mark is None or mark.after != "1":
                return False
            try:
                return ksm.read_knob(self._root, ksm.KsmKnob.RUN) in ("0", "2")
            except KernelInterfaceError:
                return False  # what is to be written fails, and says so

    def pause(self) -> None:
        """Stop scanning, if memhint began it. What is merged stays merged, and nothing more is.

        It stops whether or not the ledger can be read, or takes the note. What that raises is raised after it.
        """
        with self._arrivals.lock:
            try:
                mark = self._ledger.get(HOST, ksm.KsmKnob.RUN)
            except Exception:
                if self._on or self._flag.is_ours():
                    self._stop()
                raise
            if mark is None and self._flag.is_ours():
                self._stop()  # the store was lost since, and it is memhint's all the same
            if mark is None or mark.instance != self._host_boot or not self._stop():
                return
            # Without the note what stands there is somebody else's.
            self._ledger.put(replace(mark, after="0", at=self._now()))

    def _stop(self) -> bool:
        """Whether it ran until now, and does no more."""
        try:
            if ksm.read_knob(self._root, ksm.KsmKnob.RUN) != "1":
                return False
            ksm.write_knob(self._root, ksm.KsmKnob.RUN, "0")
        except KernelInterfaceError as error:
            LOG.error("KSM could not be stopped: %s", error)
            return False
        self._on = False
        self._flag.take_down()
        return True

    def _put_flag_up(self) -> None:
        try:
            self._flag.put_up()
        except OSError as error:
            if not self._flag_missed:
                LOG.warning("KSM goes on if this agent is killed, until the next one has looked at the VMs: %s", error)
            self._flag_missed = True

    def _hear_of_rest(self) -> None:
        """Who had KSM rest because an agent was dead has no ledger: that 0 is noted as one of memhint's own, as of a
        pause.
        """
        if not self._flag.tells_of_rest():
            return
        with self._arrivals.lock:
            mark = self._ledger.get(HOST, ksm.KsmKnob.RUN)
            try:
                stands = ksm.read_knob(self._root, ksm.KsmKnob.RUN)
            except KernelInterfaceError:
                return  # what is to be written fails, and says so
            if mark is not None and mark.instance == self._host_boot and stands == "0" and not mark.made("0"):
                self._ledger.put(replace(mark, after="0", at=self._now()))
            self._flag.take_down()

    def separate_all(self, room: Callable[[], int], page_size: int) -> str | None:
        """Separate every page that KSM has merged, of whatever process, and stop it; why that could not be, in words.

        :param room: bytes that the host can give away, as of each call
        """
        self._hear_of_rest()
        if not self.owned():
            return "somebody else runs KSM"
        if (lacking := self._no_room(room, page_size)) is not None:
            return lacking
        try:
            with self._arrivals.lock:
                self._write_marked(ksm.KsmKnob.RUN, "2")
        except KernelInterfaceError as error:
            return str(error)
        return None

    def restore(self, room: Callable[[], int], page_size: int) -> list[str]:
        """Put all knobs back, but leave to others what they changed since; what failed, in words.

        :param room: bytes that the host can give away, as of each call
        """
        self._hear_of_rest()
        problems = []
        for mark in self._marks():
            try:
                if (lacking := self._cannot_separate(mark, room, page_size)) is not None:
                    self.pause()
                    problems.append(f"{mark.knob} was {mark.before}: {lacking}")
                    continue
                with self._arrivals.lock:
                    self._put_back(mark)
            except KernelInterfaceError as error:
                problems.append(f"{mark.knob}: {error}")
        return problems

    def _marks(self) -> list[Mark]:
        """Those of KSM's knobs, in the order in which they go back."""
        mine = [mark for mark in self._ledger.all() if is_ksm(mark)]
        return sorted(mine, key=lambda mark: _RESTORE_ORDER.get(mark.knob, 1))

    def _cannot_separate(self, mark: Mark, room: Callable[[], int], page_size: int) -> str | None:
        """Why ``run`` cannot go back to 2 now, which separates all that is merged; None where it can, or need not."""
        if mark.knob != ksm.KsmKnob.RUN or mark.before != "2" or not self.owned():
            return None
        if not mark.made(ksm.read_knob(self._root, ksm.KsmKnob.RUN)):
            return None
        return self._no_room(room, page_size)

    def _no_room(self, room: Callable[[], int], page_size: int) -> str | None:
        """Why all that is merged cannot be separated, in words; None where it can."""
        try:
            return no_room("all that is merged", ksm.read_ksm(self._root).saving(page_size), room)
        except KernelInterfaceError as error:
            return str(error)

    def _put_back(self, mark: Mark) -> None:
        knob = ksm.KsmKnob(mark.knob)
        # Another boot began with the kernel's own, and its kernel may be one without this knob: it is not read then.
        ours = mark.instance == self._host_boot
        mine = ours and (mark.made(ksm.read_knob(self._root, knob)) or mark.made(ADVISED))
        if mine and not (knob is ksm.KsmKnob.PAGES_TO_SCAN and self._advisor_of_others()):
            ksm.write_knob(self._root, knob, mark.before)
        if knob is ksm.KsmKnob.RUN:
            self._flag.take_down()
        self._ledger.remove(HOST, mark.knob)

    def _advisor_of_others(self) -> bool:
        """Whether an advisor moves pages_to_scan that memhint did not set: the kernel takes no value for it then."""
        mode = ksm.KsmKnob.ADVISOR_MODE
        try:
            return self._ledger.get(HOST, mode) is None and ksm.read_knob(self._root, mode) != "none"
        except InterfaceMissing:
            return False  # an older kernel

    def _differs(self, knob: ksm.KsmKnob, value: str) -> bool:
        try:
            seen = ksm.read_knob(self._root, knob)
        except KernelInterfaceError:
            return False  # an older kernel: what it does not have is left alone
        return seen != value

    def _write_marked(self, knob: ksm.KsmKnob, value: str) -> None:
        if knob is ksm.KsmKnob.ADVISOR_MODE and value != "none":
            self._mark(ksm.KsmKnob.PAGES_TO_SCAN, ADVISED)
        known = self._ledger.get(HOST, knob)
        self._mark(knob, value)
        if knob is ksm.KsmKnob.RUN and value == "1":
            self._put_flag_up()
        try:
            ksm.write_knob(self._root, knob, value)
        except KernelInterfaceError:
            if known is not None:  # what stands there is of the write before, not of somebody else
                self._ledger.remove(HOST, knob)
                self._ledger.put(known)
            raise
        kept = self._ledger.get(HOST, knob)
        if kept is not None and kept.after != value:
            self._ledger.put(replace(kept, after=value))
        if knob is ksm.KsmKnob.RUN:
            self._on = value == "1"
            if not self._on:
                self._flag.take_down()

    def _mark(self, knob: ksm.KsmKnob, after: str) -> None:
        """Note what the knob goes back to: what it was before memhint's first write, or what others set since.

        A write that is not there, for the agent was killed before it, leaves ``before``: no one else set that.
        """
        seen, known = ksm.read_knob(self._root, knob), self._ledger.get(HOST, knob)
        advised = known is not None and known.made(ADVISED)
        if known is not None and not advised and not known.made(seen) and known.before != seen:
            self._ledger.remove(HOST, knob)  # or the ledger would keep its before
        new = Mark(HOST, knob, seen, after, self._host_boot, self._now())
        # What the advisor moves is memhint's from now on, whatever is found.
        self._ledger.put(new if after == ADVISED else on_the_way(new, known, ADVISED if advised else seen))


def no_room(what: str, need: int, room: Callable[[], int]) -> str | None:
    """Why merged pages cannot be separated, each of which then has memory of its own at once; None where they can.

    :param room: bytes that the host can give away now; not asked where nothing is needed
    :raises KernelInterfaceError: when that cannot be read
    """
    if not need or need <= (left := max(0, room())):
        return None
    return f"separating {what} needs {mib(need)} MiB, and {mib(left)} MiB are to be had"
