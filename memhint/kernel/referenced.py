"""Active memory by accessed bits: /proc/PID/clear_refs clears them all, smaps shows which pages have one again.

Each page is looked at, so there is no error by sampling; but one clearing serves a whole round, and the longest age is
as long as the round. Clearing is not free of effects: the kernel's reclaim reads the same bits, so pages of this
process look a little older to it than they are, and what it ages within a round looks idle here although it was touched
before.

A page whose translation a processor keeps in its TLB is touched without a new bit: clearing does not flush, so a small
hot set that stays there is missed.

A guest under KVM touches memory by page tables of its own, whose bits clear_refs neither clears nor reads (it calls no
mmu notifier). All of such a guest would look idle, so it is refused.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from memhint.kernel.clearings import Clearings
from memhint.kernel.errors import InterfaceMissing
from memhint.kernel.guest_ram import read_guest_ram
from memhint.kernel.root import KernelRoot
from memhint.objects.active import AGES, ActiveMemory, ActiveSource, Idle, descending
from memhint.objects.heat import HeatMap

_ALL = "1"  # accessed bits of every page of the process


class ReferencedWatch:
    """One process. ``step`` does what is due; CPU is spent by the thread that calls it."""

    source = ActiveSource.REFERENCED

    def __init__(
        self,
        root: KernelRoot,
        pid: int,
        round_s: float,
        *,
        clearings: Clearings,
        ages: Sequence[float] = AGES,
        wall: Callable[[], float] = time.time,
    ) -> None:
        """:param round_s: seconds from one clearing to the next, at least; longer ages are not observed
        :param clearings: by whom else the bits are cleared; of the clock of ``step``
        """
        self._root = root
        self._pid = pid
        self._ages = [age for age in sorted(ages) if age <= round_s] or [min(ages)]
        self._round = max(round_s, self._ages[-1])
        self._clearings = clearings
        self._wall = wall
        self._cleared: float | None = None
        self._left: list[float] = []
        self._idle: dict[float, Idle] = {}
        self._began: float | None = None
        self.cpu = 0.0  # seconds, all in all
        self.newest: ActiveMemory | None = None
        self.ranges = self.with_heat = False
        self.range_reads = 0
        self.heat: HeatMap | None = None  # never: the kernel sums accessed bits by mapping

    def step(self, now: float) -> float:
        """Clear or read, if that is due, and say when to come again: a moment of the same clock.

        :param now: monotonic seconds
        :raises KernelInterfaceError: InterfaceMissing where the kernel has it not, or KVM runs the guest
        """
        began = time.thread_time()
        try:
            if self._began is None:
                self._began = now
            if self._cleared is None or (not self._left and now >= self._cleared + self._round):
                self._clear(now)
            elif self._left and now >= self._cleared + self._left[0]:
                if self._clearings.last(self._pid) > self._cleared:
                    self._left = []  # what was touched before that looks idle: this round says no more
                else:
                    self._read()
        finally:
            self.cpu += time.thread_time() - began
        self._share(now)
        assert self._cleared is not None
        return self._cleared + (self._left[0] if self._left else self._round)

    def close(self) -> None:
        """Nothing is left behind."""

    def _clear(self, now: float) -> None:
        if read_guest_ram(self._root, self._pid).kvm:
            path = self._root.path(f"proc/{self._pid}/clear_refs")
            raise InterfaceMissing(path, "KVM runs the guest: its accessed bits are not seen there")
        self._root.write_text(f"proc/{self._pid}/clear_refs", _ALL)
        self._cleared, self._left = now, list(self._ages)
        self._clearings.note(self._pid, now)

    def _read(self) -> None:
        ram = read_guest_ram(self._root, self._pid)
        at, age = self._wall(), self._left.pop(0)
        self._idle[age] = Idle(age, ram.resident - ram.referenced, at)
        idle = descending(tuple(self._idle.values()))
        self.newest = ActiveMemory(at, self.source, ram.resident, idle, 0.0, error=0)

    def _share(self, now: float) -> None:
        if self.newest is not None and self._began is not None and now > self._began:
            seen = self.newest
            percent = 100.0 * self.cpu / (now - self._began)
            self.newest = ActiveMemory(seen.at, seen.source, seen.resident, seen.idle, percent, seen.error)
