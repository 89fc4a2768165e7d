"""What the hold of a reclaim does next: a guest's page cache is kept at what the reclaim left of it.

Only what the guest fills again without using it is taken back. The kernel puts a page on its list of used ones when it
is read a second time, or soon after it was given up: where that list grows, the guest wants its cache.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from memhint.objects.reclaim import SMALLEST, Reclaim, Stop, released
from memhint.objects.units import MIB, mib
from memhint.objects.verdict import Reason, Verdict

MARGIN = 16 * MIB  # bytes by which any guest's page cache comes and goes
PART = 8  # and an eighth of what was reclaimed: less is not worth a call
REFILLS = 2  # times that a guest may fill again what it gave up; once more, and it wants it
FRUITLESS = 3  # goes in a row that bring nothing: locked pages look cold too, and a guest may say what it likes


@dataclass(frozen=True, slots=True)
class CacheLook:
    """A guest's page cache now. Bytes; ``pressure`` in percent, None where the guest's kernel does not measure it."""

    cached: int
    cold: int  # the part that was not used recently
    pressure: float | None


@dataclass(frozen=True, slots=True)
class Step:
    """What to do: nothing, ask for ``again`` bytes, or end it because of ``stop``."""

    again: int = 0
    stop: Stop | None = None
    reason: Reason = Reason.NONE
    why: str = ""


def next_step(reclaim: Reclaim, seen: CacheLook) -> Step:
    """What a look at the guest means for a reclaim that holds. Without a hold: nothing."""
    held, limit = reclaim.held, reclaim.request.psi_limit
    if held is None:
        return Step()
    if seen.pressure is not None and limit < 100 and seen.pressure > limit:
        why = f"the guest's memory pressure ({seen.pressure:.1f} %) passed {limit:g} %"
        return Step(stop=Stop.PRESSURE, reason=Reason.GUEST_PRESSURE, why=why)
    grown = seen.cached - held.kept
    margin = max(MARGIN, reclaim.reclaimed // PART)
    if grown <= margin:
        return Step()
    used = max(0, seen.cached - seen.cold) - held.used
    if used > margin and used > grown / 2:
        why = f"the guest uses {mib(used)} of {mib(grown)} MiB that it filled again"
        return Step(stop=Stop.WANTED, reason=Reason.IN_USE, why=why)
    left = REFILLS * reclaim.reclaimed - held.again
    if left < SMALLEST:
        why = f"the guest has filled {REFILLS} times what it gave up, and goes on"
        return Step(stop=Stop.WANTED, reason=Reason.IN_USE, why=why)
    again = min(grown, seen.cold, left)
    return Step(again=again) if again >= SMALLEST else Step()


def after_go(reclaim: Reclaim, brought: int) -> tuple[Reclaim, Step]:
    """What a go that was not cut short means for a reclaim that holds.

    :param brought: bytes
    :returns: the reclaim with its goes counted, and whether that ends its hold. Without a hold: itself, and nothing
    """
    if reclaim.held is None:
        return reclaim, Step()
    fruitless = reclaim.held.fruitless + 1 if brought < SMALLEST else 0
    counted = replace(reclaim, held=replace(reclaim.held, fruitless=fruitless))
    if fruitless < FRUITLESS:
        return counted, Step()
    why = f"the guest gave up nothing of what it calls unused, {fruitless} times in a row"
    return counted, Step(stop=Stop.EXHAUSTED, why=why)


def interrupted(holding: Reclaim, word: Verdict, at: float) -> Reclaim:
    """A hold that ends because of somebody's word."""
    reason = word.reason if word.reason is not Reason.NONE else Reason.INTERRUPTED
    return released(holding, Stop.INTERRUPTED, at, reason, word.detail)
