"""Reading ahead what went to swap of a VM that wakes: it waits for its disk a few times, instead of for each page.

Never much more is read than the VM uses, and never so much at once that what it waits for itself comes last. What is
read lies in the kernel's swap cache until the guest touches it, and goes first where memory gets short. Nothing is left
to undo.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from memhint.kernel.guest_advice import Sleeper
from memhint.levers.lever import Stop
from memhint.objects.units import MIB


@dataclass(frozen=True, slots=True)
class ReadAheadSettings:
    """Bytes and seconds."""

    per_second: int = 512 * MIB  # of one VM
    first: int = 8 * MIB  # that is read before the VM has used any of it
    times: float = 8.0  # what it used since it woke: so much more may have been read
    doubt: float = 1.0  # for which a VM that uses nothing more is believed to be awake
    patience: float = 60.0  # of one wake
    waiting: int = 64  # reads that the disk has not answered: no more is asked for meanwhile
    piece: int = 16 * MIB  # between two looks at what the host has left


@dataclass(frozen=True, slots=True)
class ReadAhead:
    """What came of one wake: bytes that the kernel was asked to read, and why it ended."""

    size: int
    ended: str


def read_ahead(
    guest: Sleeper,
    in_swap: Callable[[], int],
    room: Callable[[], int],
    waiting: Callable[[], int],
    settings: ReadAheadSettings,
    *,
    clock: Callable[[], float],
    sleep: Callable[[float], None],
    stop: Stop,
) -> ReadAhead:
    """Read what is in swap of a VM, by address, as long as there is room for it and it uses what was read.

    :param in_swap: bytes that its process has in swap now; falls when the guest touches what was read
    :param room: bytes that the host can give away and keep its reserve
    :param waiting: reads that the disk has not answered yet
    :raises KernelInterfaceError: when the guest has gone, or cannot be read
    """
    gate = _Gate(in_swap, room, waiting, settings, clock, stop)
    size = 0
    for block in guest.swapped():
        while (rest := gate.rest(size, block.size)) is not None:
            if gate.ended:
                return ReadAhead(size, gate.ended)
            sleep(rest)
        guest.will_need(block)
        size += block.size
    return ReadAhead(size, "")


class _Gate:
    """Says when the next block may be read, and when none may any more."""

    _STEP = 0.01  # seconds between two looks at whether the VM uses what was read
    _ANSWER = 0.001  # and at whether the disk has answered

    def __init__(
        self,
        in_swap: Callable[[], int],
        room: Callable[[], int],
        waiting: Callable[[], int],
        settings: ReadAheadSettings,
        clock: Callable[[], float],
        stop: Stop,
    ) -> None:
        self._in_swap, self._room, self._waiting, self._clock, self._stop = in_swap, room, waiting, clock, stop
        self._settings = settings
        self._before = in_swap()
        self._began = self._used_at = clock()
        self._used = 0
        self._left = 0  # size up to which the host has room
        self.ended = ""

    def rest(self, size: int, more: int) -> float | None:
        """Seconds until it is to be asked again whether so much more may be read; None: now."""
        settings, now = self._settings, self._clock()
        if self._stop():
            self.ended = "told to stop"
        elif now - self._began >= settings.patience:
            self.ended = f"{settings.patience:g} s are over"
        elif not self._roomy(size, more):
            self.ended = "the host has nothing to give above its reserve"
        elif not self._used_enough(size + more, now):
            if now - self._used_at >= settings.doubt:
                self.ended = "the VM uses little of what was read"
            return self._STEP
        if self.ended:
            return self._STEP
        early = self._began + size / settings.per_second - now
        if early > 0:
            return early
        return self._ANSWER if self._waiting() > settings.waiting else None

    def _roomy(self, size: int, more: int) -> bool:
        if size + more > self._left:
            room = self._room()
            self._left = size + min(room, max(more, self._settings.piece))
        return size + more <= self._left

    def _used_enough(self, size: int, now: float) -> bool:
        if size <= self._settings.first + self._settings.times * self._used:
            return True
        used = self._before - self._in_swap()
        if used > self._used:
            self._used, self._used_at = used, now
        return size <= self._settings.first + self._settings.times * self._used
