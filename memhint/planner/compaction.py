"""Whether VMs wait in vain while the host's kernel moves pages to make room for huge ones."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from memhint.objects.host import HostObservation

WINDOW = 10.0  # seconds in which waits are counted together
LEAST = 2  # waits in vain within them from which on they count
SHARE = 0.5  # of all waits
# Waits at most, all in vain, of a collapse that finds no huge page: the kernel compacts before it reclaims, and after.
OF_A_COLLAPSE = 2
TRIED = 4  # waits of which fewer than that share was in vain: waiting is worth it again
REST = 600.0  # seconds without, until VMs may wait again: with nobody waiting nothing tells whether it would be in vain
LONGEST = 8 * REST  # each time that it was in vain again, the rest is twice as long, up to this
FEW = 8  # one part in so many of a node's memory in free blocks: below, first touches may soon find none
MANY = 4  # ... and above this part they are not lacking any more


@dataclass(frozen=True, slots=True)
class HugeWaits:
    """The kernel's counters since boot: who waited while it moved pages, and who of them in vain.

    It counts among them who makes huge pages of small ones, khugepaged or memhint: no VM waits for that.
    """

    stall: int
    fail: int
    collapse_failed: int = 0


class Lacking(StrEnum):
    """Which nodes have few free blocks of a huge page."""

    NOWHERE = "nowhere"  # first touches find one, and nobody waits
    SOMEWHERE = "somewhere"  # VMs that are bound to such a node may wait, others get one of another node
    EVERYWHERE = "everywhere"


@dataclass(frozen=True, slots=True)
class Compaction:
    """What is remembered of it."""

    began: HugeWaits | None = None  # the counters when the window began
    age: float = 0.0  # seconds since then
    rest: float = 0.0  # seconds for which nobody is to wait any more
    last: float = 0.0  # the whole of the rest that was begun last; 0: waiting was worth it, as far as is known
    lacking: Lacking = Lacking.EVERYWHERE

    @property
    def vain(self) -> bool:
        """Whether waiting was in vain a while ago, and somebody might wait now."""
        return self.rest > 0 and self.lacking is not Lacking.NOWHERE

    @property
    def watched(self) -> bool:
        """Whether looks between two cycles are worth it: all may have to wait soon, and nobody was told not to."""
        return self.lacking is Lacking.EVERYWHERE and not self.vain


def waits_of(host: HostObservation) -> HugeWaits | None:
    """The counters, where the kernel has them."""
    huge = host.huge
    return HugeWaits(huge.compact_stall, huge.compact_fail, huge.collapse_failed or 0) if huge is not None else None


def next_compaction(
    before: Compaction, seen: HugeWaits | None, elapsed: float | None, *, lacking: Lacking
) -> Compaction:
    """After one more look, ``elapsed`` seconds after the last. Without counters only time goes by.

    :param lacking: `lacking_on` of now
    """
    passed = elapsed or 0.0
    rest, age = max(0.0, before.rest - passed), before.age + passed
    if seen is None:
        return Compaction(before.began, age, rest, before.last, lacking)
    if before.began is None or elapsed is None or _fell(before.began, seen):
        return Compaction(seen, 0.0, rest, before.last, lacking)
    others = OF_A_COLLAPSE * (seen.collapse_failed - before.began.collapse_failed)
    stalls = max(0, seen.stall - before.began.stall - others)
    fails = max(0, seen.fail - before.began.fail - others)
    if fails >= LEAST * max(1, int(age / WINDOW)) and fails >= SHARE * stalls:
        longer = before.last if rest else min(LONGEST, 2 * before.last)
        return Compaction(seen, 0.0, longer or REST, longer or REST, lacking)
    last = 0.0 if not rest and stalls >= TRIED and fails < SHARE * stalls else before.last
    if age >= WINDOW:
        return Compaction(seen, 0.0, rest, last, lacking)
    return Compaction(before.began, age, rest, last, lacking)


def _fell(before: HugeWaits, now: HugeWaits) -> bool:
    """Whether the counters began again."""
    return now.stall < before.stall or now.collapse_failed < before.collapse_failed


def turns_vain(before: Compaction, seen: HugeWaits, elapsed: float | None) -> bool:
    """Whether a cycle now would find that VMs wait in vain, where the last one did not: for looks between cycles."""
    return before.watched and next_compaction(before, seen, elapsed, lacking=before.lacking).vain


def lacking_on(host: HostObservation, before: Lacking) -> Lacking:
    """Where first touches may soon have to wait for a huge page. Where it is not known, everywhere.

    :param before: as the last look found it
    """
    totals = {one.node: one.total for one in host.numa} or {node: host.memory.total for node in host.free_huge}
    if not host.free_huge:
        return Lacking.EVERYWHERE
    part = FEW if before is Lacking.NOWHERE else MANY
    few = [part * free < totals.get(node, 0) for node, free in host.free_huge.items() if totals.get(node, 0)]
    return Lacking.EVERYWHERE if all(few) else Lacking.SOMEWHERE if any(few) else Lacking.NOWHERE
