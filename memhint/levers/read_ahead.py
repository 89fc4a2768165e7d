"""Reading ahead what went to swap of a VM that wakes: it waits for its disk a few times, instead of for each page.

Never much more is read than the VM uses, and never so much at once that what it waits for itself comes last. What was
read is mapped for the VM while the disk reads on, but for a page here and there, by which it is seen whether the VM
uses it. It stays clean, with its place in swap, until the VM writes to it, so where memory gets short it goes without
being written. Nothing is left to undo.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from memhint.kernel.guest_advice import Mapped, Sleeper, Swapped
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
    mapped: int = 0  # of it, without a fault of the VM


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

    :param in_swap: bytes that its process has in swap now; falls when the guest touches what was read, or it is mapped
    :param room: bytes that the host can give away and keep its reserve
    :param waiting: reads that the disk has not answered yet
    :raises KernelInterfaceError: when the guest has gone, or cannot be read
    """
    use = _Use(guest, in_swap)
    gate = _Gate(use, room, waiting, settings, clock, stop)
    size = 0
    last: Swapped | None = None  # that was read and is not mapped yet
    for block in guest.swapped():
        while (rest := gate.rest(size, block.size)) is not None:
            if gate.ended:
                return ReadAhead(size, gate.ended, use.mapped)
            if last is None:
                sleep(rest)
                continue
            use.map(last)
            last = None
        guest.will_need(block)
        size += block.size
        if last is not None:
            use.map(last)
        last = block
    if last is not None:
        use.map(last)
    return ReadAhead(size, "", use.mapped)


class _Use:
    """How much of what it had in swap a VM has used since it woke, in bytes.

    What it took from there itself is seen. What was mapped for it counts by the pages that were left between.
    """

    _LOOKS = 16  # blocks that are looked at anew each time

    def __init__(self, guest: Sleeper, in_swap: Callable[[], int]) -> None:
        self._guest, self._in_swap = guest, in_swap
        self._before = in_swap()
        self._open: deque[tuple[Mapped, int]] = deque()  # blocks of which not all was used, and pages left of each
        self._by_pages = 0.0
        self.mapped = 0  # what left swap without the VM's doing

    def map(self, block: Swapped) -> None:
        """Map a block that was read."""
        done = self._guest.map(block)
        self.mapped += done.size
        if done.left:
            self._open.append((done, len(done.left)))

    def bytes(self) -> int:
        """As of now."""
        for _ in range(min(self._LOOKS, len(self._open))):
            block, before = self._open.popleft()
            left = min(before, self._guest.untouched(block))
            self._by_pages += block.size * (before - left) / len(block.left)
            if left:
                self._open.append((block, left))
        return max(0, self._before - self._in_swap() - self.mapped) + int(self._by_pages)


class _Gate:
    """Says when the next block may be read, and when none may any more."""

    _STEP = 0.01  # seconds between two looks at whether the VM uses what was read
    _ANSWER = 0.001  # and at whether the disk has answered

    def __init__(
        self,
        use: _Use,
        room: Callable[[], int],
        waiting: Callable[[], int],
        settings: ReadAheadSettings,
        clock: Callable[[], float],
        stop: Stop,
    ) -> None:
        self._use, self._room, self._waiting, self._clock, self._stop = use, room, waiting, clock, stop
        self._settings = settings
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
        used = self._use.bytes()
        if used > self._used:
            self._used, self._used_at = used, now
        return size <= self._settings.first + self._settings.times * self._used
