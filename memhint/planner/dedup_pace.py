"""KSM's pace where memhint sets it: fast while idle VMs hold memory that it has not been over, slow otherwise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from memhint.objects.host import Ksm
from memhint.objects.units import MIB


class Pace(StrEnum):
    """How fast KSM is to scan."""

    FAST = "fast"
    SLOW = "slow"


@dataclass(frozen=True, slots=True)
class PaceSettings:
    """When a VM is worth a look. Bytes, and full scans of all that may merge."""

    least: int = 16 * MIB  # that a VM has more of than when it was last gone over
    rounds: int = 3  # one is under way already, the next remembers what the pages hold, the third merges them
    settle: int = 3  # looks at which a VM was idle before its rounds: one that just began to rest may go on at once


@dataclass(frozen=True, slots=True)
class Rounds:
    """KSM is going over one VM."""

    until: int  # KSM's full_scans at which it is done with it
    looks: int = 0  # since it began
    disturbed: bool = False  # it was busy at one of them


@dataclass(frozen=True, slots=True)
class PaceState:
    """What one cycle hands to the next. Keys are QEMU processes."""

    gone_over: Mapping[str, int] = field(default_factory=dict)  # bytes not merged when KSM was done with it
    under_way: Mapping[str, Rounds] = field(default_factory=dict)
    quiet: Mapping[str, int] = field(default_factory=dict)  # looks at which it was idle, one after the other
    wait: Mapping[str, int] = field(default_factory=dict)  # how many of them it takes before it is gone over again


def next_pace(
    state: PaceState, ksm: Ksm | None, unmerged: Mapping[str, int], idle: frozenset[str], settings: PaceSettings
) -> tuple[Pace, PaceState]:
    """The pace after one more look.

    A VM that is busy changes its pages faster than they merge: its rounds begin when it has been idle for some looks.
    One that turns busy meanwhile keeps its place, and is gone over again once it was idle for as long as its rounds
    took; each time that this happens again it takes twice as long. So no VM, whatever it does, keeps KSM fast with what
    it held before.

    :param unmerged: resident bytes that are not merged, of each QEMU process that may merge
    """
    if ksm is None or not unmerged:
        return Pace.SLOW, PaceState()
    # What a VM has given back since and takes again is new.
    gone_over = {name: min(size, unmerged[name]) for name, size in state.gone_over.items() if name in unmerged}
    wait = {name: looks for name, looks in state.wait.items() if name in unmerged}
    quiet = {name: state.quiet.get(name, 0) + 1 for name in unmerged if name in idle}
    under_way = {}
    for name, one in state.under_way.items():
        if name not in unmerged:
            continue
        seen = Rounds(one.until, one.looks + 1, one.disturbed or name not in idle)
        if ksm.full_scans < one.until:
            under_way[name] = seen
        elif seen.disturbed:
            wait[name] = max(seen.looks, 2 * wait.get(name, 0))
        else:
            gone_over[name] = unmerged[name]
            wait.pop(name, None)
    for name, looks in quiet.items():
        new = unmerged[name] >= gone_over.get(name, 0) + settings.least
        if new and name not in under_way and looks >= max(settings.settle, wait.get(name, 0) + 1):
            under_way[name] = Rounds(ksm.full_scans + settings.rounds)
    return Pace.FAST if under_way else Pace.SLOW, PaceState(gone_over, under_way, quiet, wait)
