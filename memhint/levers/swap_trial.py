"""How much of a guest may go to swap so that what it uses stays: found by what it touches, and by what comes back.

The kernel ages memory as fast as it is asked for more. Asked for much of a VM at once, it ages all of it several times
within milliseconds, and takes pages that the guest uses ten times a second (multi-generational LRU, Linux 6.12). So
nothing is taken before the guest had time to touch what it uses:

- Emulated guests: all of the memory is made old, and after ``settle`` seconds a part of what was not touched is taken.
- Guests under KVM touch memory by page tables of their own, of which the process's page tables tell nothing. A small
  part is taken. What the guest needs of it comes back within ``settle`` seconds; if that is little, twice as much is
  next, and never more than a thirty-second of what it has.

Of either, where more than ``most_back`` of what was taken came back, nothing is taken for ``rest`` seconds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from memhint.kernel.clearings import Clearings
from memhint.kernel.guest_advice import Guest
from memhint.kernel.process import pid_of
from memhint.kernel.root import PAGE_SIZE
from memhint.objects.units import MIB
from memhint.objects.verdict import Answer, Reason, Verdict

_LEFT = 1 / 8  # of what was not touched: where it nears its end, the kernel takes what is in use
_AT_ONCE = 1 / 32  # of what a guest has, where what it touches cannot be seen: so much may have been in use
_STALE = 7200.0  # seconds, for the kernel itself may have aged it again by then: more than two periods at most
_KEPT = 14400.0  # seconds for which it is known of a process what came of taking from it


@dataclass(frozen=True, slots=True)
class TrialSettings:
    """Seconds, bytes, and a part of what was taken."""

    settle: float = 8.0
    first: int = 16 * MIB  # of a guest of which what it touches cannot be seen
    most: int = 256 * MIB  # of any take
    most_back: float = 0.05
    rest: float = 60.0


@dataclass(slots=True)
class _Taken:
    """The last take. Bytes."""

    at: float
    size: int
    swapped: int  # of the guest's memory, right after it


@dataclass(slots=True)
class _TrialState:
    """What is known of one process."""

    seen: float
    step: int
    aged: float | None = None  # when its memory was made old
    taken: _Taken | None = None
    until: float = float("-inf")  # it is left alone


class SwapTrial:
    """What was tried with which QEMU process. Waits for nothing: a later call goes on. For one thread at a time."""

    def __init__(self, settings: TrialSettings, clearings: Clearings, clock: Callable[[], float]) -> None:
        """:param clock: seconds, monotonic"""
        self._settings = settings
        self._clearings = clearings
        self._clock = clock
        self._known: dict[str, _TrialState] = {}

    def next(self, instance: str, guest: Guest, wish: int) -> int | Verdict:
        """Bytes that may be taken now; else why not, or not yet.

        :param instance: the process
        :param wish: bytes
        :raises KernelInterfaceError: when the guest cannot be looked at, or made old
        """
        now, settings = self._clock(), self._settings
        self._known = {name: one for name, one in self._known.items() if now - one.seen < _KEPT}
        known = self._known.setdefault(instance, _TrialState(now, min(settings.first, settings.most)))
        known.seen = now
        wait = 0.0 if known.taken is None else known.taken.at + settings.settle - now
        if wait > 0:
            return _later(wait, "what it needs of what was taken comes back")
        ram = guest.look()
        if not ram.spans:
            return Verdict(Answer.UNSUPPORTED, Reason.DEVICE, "it has no memory of its own that can be looked at")
        if known.taken is not None:
            self._judge(known, known.taken, ram.swapped, now)
        if known.until > now:
            detail = f"it uses what was taken from it: left alone for {known.until - now:.0f} s"
            return Verdict(Answer.REFUSED, Reason.IN_USE, detail)
        if ram.kvm:
            return min(wish, known.step, max(PAGE_SIZE, int(ram.resident * _AT_ONCE)))
        pid = pid_of(instance)
        if known.aged is None or now - known.aged > _STALE:
            guest.age()
            known.aged = self._clock()
            self._clearings.note(pid, known.aged)
            return _later(settings.settle, "it touches what it uses")
        wait = max(known.aged, self._clearings.last(pid)) + settings.settle - now
        if wait > 0:
            return _later(wait, "it touches what it uses")
        since, known.aged = now - self._clearings.last(pid), None  # what is taken now, the kernel ages meanwhile
        resting = int((ram.resident - ram.referenced) * (1 - _LEFT))
        if resting <= 0:
            detail = f"it used all of its memory within {since:.0f} s"
            return Verdict(Answer.REFUSED, Reason.IN_USE, detail)
        return min(wish, resting, settings.most)

    def took(self, instance: str, guest: Guest, size: int) -> None:
        """Remember a take, to see what comes back.

        :param size: bytes that went to swap
        :raises KernelInterfaceError: when the guest cannot be looked at
        """
        known = self._known[instance]
        if size > 0:
            known.taken = _Taken(self._clock(), size, guest.look().swapped)

    def _judge(self, known: _TrialState, taken: _Taken, swapped: int, now: float) -> None:
        known.taken = None
        back = taken.swapped - swapped
        if back > self._settings.most_back * taken.size:
            known.step = min(self._settings.first, self._settings.most)
            known.until = now + self._settings.rest
            known.aged = None
        else:
            known.step = min(2 * known.step, self._settings.most)


def _later(wait: float, why: str) -> Verdict:
    return Verdict(Answer.PENDING, Reason.NONE, f"in {wait:.0f} s: {why} first")
