"""One setting of the host that memhint may own for a while: marked, and never taken from whoever set it since.

A mark says whether its write was done. So whoever comes next, also after the configuration was read again, can tell an
agent that was killed over it from an operator who has set the former value again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from memhint.objects.ownership import HOST, Ledger, Mark, to_be_done
from memhint.objects.verdict import Answer, Reason, Verdict


class HostKnob:
    """Set while something is wished of it, and put back as it was."""

    def __init__(
        self,
        name: str,
        ledger: Ledger,
        host_boot: str,
        now: Callable[[], float],
        read: Callable[[], str],
        write: Callable[[str], None],
    ) -> None:
        """:param name: of the setting, as marks have it; its last word is that of the file
        :param host_boot: names this boot of the host; marks of another one are void
        :param read: what stands there; raises KernelInterfaceError, as `write` does
        """
        self._name = name
        self._file = name.rpartition(" ")[2]
        self._ledger = ledger
        self._host_boot = host_boot
        self._now = now
        self._read = read
        self._write = write

    def want(
        self, value: str, good: Callable[[str], bool], *, own: bool, why: str, advice: str, dry_run: bool
    ) -> Verdict:
        """Bring it to ``value``, unless what stands there is good as well.

        :param own: whether memhint may; what it may not do any more it does not leave behind
        :param why: what is said of a value that is not good; ``{}`` is the value
        :param advice: what to do where memhint may not
        :raises KernelInterfaceError: when it cannot be read or written; a mark is kept then
        """
        mark = self._ledger.get(HOST, self._name)
        if mark is not None and not own:
            return self.put_back(dry_run=dry_run)
        seen = self._read()
        ours = mark is not None and mark.instance == self._host_boot
        if good(seen):
            if ours and mark is not None and mark.made(seen) and seen not in (mark.before, mark.after) and not dry_run:
                self._ledger.put(replace(mark, after=seen))  # who wrote it was killed before that was noted
            return Verdict(Answer.UNCHANGED)
        what = why.format(seen)
        if not own:
            return Verdict(Answer.UNCHANGED, Reason.OPT_OUT, f"{what}: {advice}")
        if ours and mark is not None and not mark.made(seen):
            return Verdict(Answer.CONFLICT, Reason.OTHER_MANAGER, f"{what}: somebody has set that since")
        if dry_run:
            return Verdict(Answer.PLANNED, Reason.DRY_RUN, f"write {value} to {self._file}")
        new = Mark(HOST, self._name, seen, value, self._host_boot, self._now())
        self._ledger.put(to_be_done(new, seen))
        self._write(value)
        self._ledger.put(new)
        return Verdict(Answer.APPLIED, Reason.NONE, f"{self._file}={value}, it was {seen}")

    def put_back(self, *, dry_run: bool) -> Verdict:
        """As it was, unless somebody has set it since.

        :raises KernelInterfaceError: when it cannot be read or written; the mark is kept then
        """
        mark = self._ledger.get(HOST, self._name)
        if mark is None:
            return Verdict(Answer.UNCHANGED)
        if dry_run:
            return Verdict(Answer.PLANNED, Reason.DRY_RUN, f"write {mark.before} to {self._file} again")
        # What stands there by now may be somebody else's, and another boot began with the kernel's own.
        seen = self._read() if mark.instance == self._host_boot else mark.before
        mine = mark.made(seen) and seen != mark.before
        if mine:
            self._ledger.put(to_be_done(replace(mark, after=seen), mark.before))
            self._write(mark.before)
        self._ledger.remove(HOST, self._name)
        if not mine:
            return Verdict(Answer.UNCHANGED)
        return Verdict(Answer.APPLIED, Reason.NONE, f"{self._file}={mark.before} again")
