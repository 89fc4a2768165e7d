"""Reading ahead what went to swap of a VM that wakes: it waits for its disk once, instead of once for each page.

What is read lies in the kernel's swap cache until the guest touches it, and goes first where memory gets short. Nothing
is left to undo.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from memhint.kernel.guest_advice import Sleeper
from memhint.levers.lever import Stop
from memhint.objects.units import MIB

WAKES = 0.05  # seconds of one for which a VM that wakes waits for its memory


@dataclass(frozen=True, slots=True)
class ReadAheadSettings:
    """Bytes and seconds."""

    per_second: int = 256 * MIB  # of one VM
    piece: int = 16 * MIB  # between two looks at what is left and whether it was needed
    patience: float = 30.0  # of one wake
    doubt: float = 1.0  # for which a VM that uses nothing of what was read is believed to be awake
    used: float = 1 / 8  # of what was read that it must have used by then


@dataclass(frozen=True, slots=True)
class ReadAhead:
    """What came of one wake: bytes that the kernel was asked to read, and why it ended."""

    size: int
    ended: str


def read_ahead(
    guest: Sleeper,
    in_swap: Callable[[], int],
    room: Callable[[], int],
    settings: ReadAheadSettings,
    *,
    clock: Callable[[], float],
    sleep: Callable[[float], None],
    stop: Stop,
) -> ReadAhead:
    """Read what is in swap of a VM, by address, as long as there is room for it and it uses what was read.

    :param in_swap: bytes that its process has in swap now; falls when the guest touches what was read
    :param room: bytes that the host can give away and keep its reserve
    :param clock: seconds, monotonic
    :raises KernelInterfaceError: when the guest has gone, or cannot be read
    """
    began, before = clock(), in_swap()
    size, left = 0, 0
    for block in guest.swapped():
        if left <= 0:
            ended = _ended(size, before - in_swap(), clock() - began, settings) or ("told to stop" if stop() else "")
            if ended:
                return ReadAhead(size, ended)
            left = settings.piece
            if room() < left:
                return ReadAhead(size, "the host has nothing to give above its reserve")
        guest.will_need(block)
        size += block.size
        left -= block.size
        sleep(max(0.0, began + size / settings.per_second - clock()))
    return ReadAhead(size, "")


def _ended(size: int, used: int, elapsed: float, settings: ReadAheadSettings) -> str:
    if elapsed >= settings.patience:
        return f"{settings.patience:g} s are over"
    if elapsed >= settings.doubt and used < size * settings.used:
        return "the VM uses little of what was read"
    return ""
