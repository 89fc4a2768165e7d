"""What is remembered of one VM, whichever predictor asks."""

from __future__ import annotations

import math
from dataclasses import dataclass

SLOTS = 48  # a forecast's window is remembered in this many slots, each with the largest footprint seen in it


@dataclass(frozen=True, slots=True)
class Past:
    """Bytes and seconds of the planner's clock. Of bounded size, however long the VM runs."""

    instance: str  # the QEMU process
    first_seen: float  # that process; while it has not run yet, when it was seen last
    peak: float  # what the predictor makes of the past: the decaying peak, or a quantile of the slots
    at: float
    highest: int  # the footprint's peak, not decaying
    slots: tuple[int, ...] = ()  # the largest footprint of each slot, oldest first; empty where no window is asked for
    slot: int = 0  # the number of the newest slot
    memory: int = 0  # bytes that the VM was given when it was seen last; 0: not known
    waits: bool = False  # that process has not run yet: it is starting, was started paused, or still arrives
    born: float | None = None  # when the VM was seen first, where that is not when this process was

    @property
    def since(self) -> float:
        """When the VM itself was seen first, in whichever process, with however much memory."""
        return self.first_seen if self.born is None else self.born


def slot_of(now: float, window: float) -> int:
    """The number of the slot that ``now`` lies in, for a window of so many seconds."""
    return math.floor(now * SLOTS / window)


def advance(slots: tuple[int, ...], newest: int, slot: int, use: int) -> tuple[int, ...]:
    """The slots after one more sample in slot number ``slot``; ``newest`` is the number of the last one.

    A slot keeps its largest sample. Slots without a look repeat the one before them.
    """
    if not slots:
        return (use,)
    if slot <= newest:
        return slots if use <= slots[-1] else (*slots[:-1], use)
    missed = min(slot - newest - 1, SLOTS)
    return (*slots, *(slots[-1:] * missed), use)[-SLOTS:]
