"""When what a guest has freed is worth a flush: at its first rest since the last one, if it freed more since.

What is freed in small blocks goes to the lists of the guest's CPUs first, some of it stays there, and reporting does
not see it: up to an eighth of a zone, which no counter calls free. A flush begins by emptying these lists. That memory
was freed shows in what was reported since; what lies on the lists shows nowhere.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from memhint.objects.guest import GuestKernel, GuestMemory
from memhint.objects.units import MIB

AGAIN = 16 * MIB  # reported since the last flush: less than this is what an idle guest frees by itself


@dataclass(frozen=True, slots=True)
class _Flushed:
    boot: str | None  # of the guest
    rests: int  # as the wish had them
    reported: int  # bytes that it had reported in its life by then


class Flushes:
    """The last flush of each guest, by domain UUID. Guests are talked to on several threads, each on one at a time."""

    def __init__(self) -> None:
        self._last: dict[str, _Flushed] = {}

    def due(self, uuid: str, kernel: GuestKernel, memory: GuestMemory | None, rests: int) -> bool:
        """Whether there may be something to find; one that was not flushed since it booted has it.

        :param memory: what the guest says now
        :param rests: how often it came to rest
        """
        if memory is None or not memory.free or memory.lifetime_reported is None:
            return False
        last = self._last.get(uuid)
        if last is None or last.boot != kernel.boot_id:
            return True
        return rests != last.rests and memory.lifetime_reported - last.reported >= AGAIN

    def note(self, uuid: str, kernel: GuestKernel, memory: GuestMemory | None, rests: int, flushed: int = 0) -> None:
        """Remember one: before the call, as one that takes too long is not tried again, and with what it brought.

        :param memory: what the guest said before it
        :param flushed: bytes that it reported
        """
        if memory is not None and memory.lifetime_reported is not None:
            self._last[uuid] = _Flushed(kernel.boot_id, rests, memory.lifetime_reported + flushed)

    def retain(self, uuids: Collection[str]) -> None:
        """Forget all others."""
        for gone in set(self._last).difference(uuids):
            del self._last[gone]
