"""Whether VMs wait in vain while the host's kernel moves pages to make room for huge ones."""

from __future__ import annotations

from dataclasses import dataclass

from memhint.objects.host import HugeActivity

RATE = 1.0  # waits in vain a second from which on they count
SHARE = 0.5  # of all waits
REST = 600.0  # seconds without, until VMs may wait again: with nobody waiting nothing tells whether it would be in vain


@dataclass(frozen=True, slots=True)
class Compaction:
    """What is remembered of it. ``stall`` and ``fail`` are the kernel's counters at the last look."""

    stall: int | None = None
    fail: int = 0
    rest: float = 0.0  # seconds for which nobody is to wait any more

    @property
    def vain(self) -> bool:
        """Whether waiting was in vain a while ago."""
        return self.rest > 0


def next_compaction(before: Compaction, seen: HugeActivity | None, elapsed: float | None) -> Compaction:
    """After one more look, ``elapsed`` seconds after the last. Without counters only the rest goes by."""
    rest = max(0.0, before.rest - (elapsed or 0.0))
    if seen is None:
        return Compaction(before.stall, before.fail, rest)
    if before.stall is not None and elapsed:
        stalls, fails = seen.compact_stall - before.stall, seen.compact_fail - before.fail
        if fails >= RATE * elapsed and fails >= SHARE * stalls:
            rest = REST
    return Compaction(seen.compact_stall, seen.compact_fail, rest)
