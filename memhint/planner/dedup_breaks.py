"""Whose merged pages break faster than they are worth: such a VM is left alone for a while.

A break is a page fault and a copy, and after it KSM has to find the page again: what is merged for a minute is not
worth that. How long pages stay merged follows from how many there are and how many break in a second (Little's law).

The kernel counts breaks of the whole host (``cow_ksm``), and page faults of each process. So the breaks are divided by
faults among the VMs that have merged pages, which may blame one that has many faults for another reason. Therefore one
VM rests at a time, the one with the shortest life, and what follows is its trial: unless the host's breaks fall
by half of what it was blamed for at least, it merges again and is not blamed for a while. To separate its pages counts
as breaks, too, so the window in which that is done decides nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from memhint.objects.domain import DomainObservation
from memhint.objects.host import HostObservation
from memhint.objects.merging import Merging
from memhint.objects.verdict import Answer, Reason, Verdict

_DOUBLED = 4  # times that a rest gets twice as long
_FELL = 0.5  # the part of what a VM was blamed for by which the host's breaks must fall


@dataclass(frozen=True, slots=True)
class BreakSettings:
    """When merged pages break too fast. Seconds, and pages per second."""

    least_life: float = 60.0  # that a page must stay merged, on the average; 0: no VM ever rests
    least_rate: float = 100.0  # fewer breaks of one VM are not worth a look: a thousandth of a core or so
    window: float = 60.0  # over which is counted
    rest: float = 1800.0  # the first; each further one is twice as long, four times at most


@dataclass(frozen=True, slots=True)
class Rest:
    """A VM that is left alone, or was."""

    until: float  # seconds of the planner's clock
    times: int  # it had to rest
    blamed: float  # breaks per second
    life: float  # seconds that its pages stayed merged
    trial: float | None = None  # the host's breaks per second before it rested; None once they fell
    windows: int = 0  # that have ended since


@dataclass(frozen=True, slots=True)
class Breaks:
    """What the newest window told of one VM."""

    rate: float  # breaks per second
    life: float | None  # seconds


@dataclass(frozen=True, slots=True)
class BreakState:
    """What one cycle hands to the next. Keys are QEMU processes."""

    at: float | None = None  # when the window began
    cow: int | None = None  # the host's counter then
    faults: Mapping[str, int] = field(default_factory=dict)
    zero: Mapping[str, int] = field(default_factory=dict)  # bytes replaced by the zero page, then
    seen: Mapping[str, Breaks] = field(default_factory=dict)
    resting: Mapping[str, Rest] = field(default_factory=dict)
    acquitted: Mapping[str, float] = field(default_factory=dict)  # until when each is not blamed


def next_breaks(
    state: BreakState, host: HostObservation, domains: Sequence[DomainObservation], now: float, settings: BreakSettings
) -> BreakState:
    """The state after one more look.

    :param domains: all of the host; those without merged pages cannot break any
    """
    processes = {one.process.instance: one.process for one in domains if one.process is not None}
    resting = {name: rest for name, rest in state.resting.items() if name in processes and _known(rest, now, settings)}
    acquitted = {name: until for name, until in state.acquitted.items() if name in processes and until > now}
    cow = host.ksm.cow_breaks if host.ksm is not None else None
    faults = {name: one.faults for name, one in processes.items() if one.faults is not None}
    zero = {name: one.ksm_zero or 0 for name, one in processes.items()}
    if state.at is None or cow is None or state.cow is None or cow < state.cow or now < state.at:
        return BreakState(now, cow, faults, zero, {}, resting, acquitted)
    elapsed = now - state.at
    if elapsed < settings.window:
        seen = {name: one for name, one in state.seen.items() if name in processes}
        return BreakState(state.at, state.cow, state.faults, state.zero, seen, resting, acquitted)
    merged = {name: (one.ksm_merging or 0) + (one.ksm_zero or 0) for name, one in processes.items()}
    seen = _divided(state, cow, faults, zero, merged, elapsed, host.page_size)
    resting, acquitted, tried = _tried(resting, acquitted, (cow - state.cow) / elapsed, now, settings)
    if not tried:
        worst = _worst(seen, resting, acquitted, now, settings)
        if worst is not None:
            name, one, life = worst
            times = min(_DOUBLED, resting[name].times + 1 if name in resting else 0)
            until = now + settings.rest * 2**times
            resting[name] = Rest(until, times, one.rate, life, (cow - state.cow) / elapsed)
    return BreakState(now, cow, faults, zero, seen, resting, acquitted)


def rest_of(state: BreakState, domain: DomainObservation, now: float) -> Verdict | None:
    """Why a VM is left alone now; None where it is not."""
    rest = state.resting.get(domain.process.instance) if domain.process is not None else None
    if rest is None or rest.until <= now:
        return None
    detail = (
        f"its merged pages broke after {rest.life:.0f} s on the average, {rest.blamed:.0f} in a second: "
        "it is left alone for a while"
    )
    return Verdict(Answer.UNCHANGED, Reason.PAGES_BREAK, detail)


def merging_of(state: BreakState, domain: DomainObservation, now: float) -> Merging | None:
    """How the merged memory of a VM fares; None where it has none and does not rest."""
    if domain.process is None:
        return None
    name = domain.process.instance
    merged = (domain.process.ksm_merging or 0) + (domain.process.ksm_zero or 0)
    seen, rest = state.seen.get(name), state.resting.get(name)
    left = rest.until - now if rest is not None and rest.until > now else None
    if not merged and left is None:
        return None
    return Merging(
        merged=merged,
        breaks=None if seen is None else round(60 * seen.rate),
        life=None if seen is None else seen.life,
        rests=left,
        zero=domain.process.ksm_zero or 0,
        partition=domain.process.ksm_partition,
    )


def _known(rest: Rest, now: float, settings: BreakSettings) -> bool:
    """Whether a rest is still going on, or not long enough over to be forgotten."""
    return rest.until + _DOUBLED * settings.rest > now


def _divided(
    state: BreakState,
    cow: int,
    faults: Mapping[str, int],
    zero: Mapping[str, int],
    merged: Mapping[str, int],
    elapsed: float,
    page_size: int,
) -> dict[str, Breaks]:
    """The window's breaks by VM. What left the zero page is counted by the kernel for each VM."""
    assert state.cow is not None
    more = {name: max(0, faults[name] - state.faults[name]) for name in faults if name in state.faults}
    having = {name: count for name, count in more.items() if merged.get(name) or state.zero.get(name)}
    whole = sum(having.values())
    seen = {}
    for name, count in having.items():
        shared = min(count, (cow - state.cow) * count / whole) if whole else 0.0
        left_zero = max(0, state.zero.get(name, 0) - zero.get(name, 0)) / page_size
        # What a guest gives back leaves the zero page without a fault.
        rate = min(float(count), shared + left_zero) / elapsed
        seen[name] = Breaks(rate, merged[name] / page_size / rate if rate * elapsed >= 1 else None)
    return seen


def _tried(
    resting: Mapping[str, Rest], acquitted: Mapping[str, float], rate: float, now: float, settings: BreakSettings
) -> tuple[dict[str, Rest], dict[str, float], bool]:
    """Who was blamed for nothing. True while somebody is on trial: nobody else is blamed then."""
    kept, free, tried = {}, dict(acquitted), False
    for name, rest in resting.items():
        if rest.trial is None:
            kept[name] = rest
            continue
        tried = True
        if rest.windows == 0:
            kept[name] = replace(rest, windows=1)
        elif rest.trial - rate >= _FELL * rest.blamed:
            kept[name] = replace(rest, trial=None)
        else:
            free[name] = now + settings.rest
    return kept, free, tried


def _worst(
    seen: Mapping[str, Breaks],
    resting: Mapping[str, Rest],
    acquitted: Mapping[str, float],
    now: float,
    settings: BreakSettings,
) -> tuple[str, Breaks, float] | None:
    """The VM whose pages stay merged for the shortest time, of those where that is too short."""
    found = [
        (one.life, name, one)
        for name, one in seen.items()
        if one.life is not None
        and one.life < settings.least_life
        and one.rate >= settings.least_rate
        and name not in acquitted
        and not (name in resting and resting[name].until > now)
    ]
    if not found:
        return None
    life, name, one = min(found, key=lambda each: each[:2])
    return name, one, life
