"""How much memory of each VM may go to swap while the host is calm: what a reading says rests, while little comes back.

What comes back is bounded as large fleets bound it: at most 0.2 % of what a VM uses in a minute (Lagar-Cavilla et al.,
Software-Defined Far Memory in Warehouse-Scale Computers, ASPLOS 2019, 4.3). A VM that has more back gives nothing until
the next reading, and then only what rests for longer. By QEMU process.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import exp

from memhint.objects.active import AGES, ActiveMemory
from memhint.objects.domain import DomainObservation
from memhint.planner.relief.candidate import Candidate

_MINUTE = 60.0  # seconds


@dataclass(frozen=True, slots=True)
class ColdSettings:
    """Seconds, and percent of what a VM uses."""

    after: float = 60.0  # a VM's memory rests after so long, at first: an age that readings have
    back_percent: float = 0.2  # that may come back within a minute
    valid: float = 600.0  # for which a reading is gone by


@dataclass(frozen=True, slots=True)
class Cold:
    """What is known of one QEMU process. Bytes and seconds."""

    age: float  # what has rested for so long may go
    swap: int  # in swap at the last look
    back: float = 0.0  # came back within about the last minute
    read_at: float | None = None  # of the reading that is gone by, unix seconds
    left: int = 0  # of what it said rests
    since: float = 0.0  # when it was first seen
    paused: bool = False  # too much came back: nothing until the next reading


def next_cold(
    before: Mapping[str, Cold], domains: Iterable[DomainObservation], elapsed: float | None, settings: ColdSettings
) -> dict[str, Cold]:
    """The same one look later.

    :param elapsed: seconds since the last look
    """
    found = {}
    for one in domains:
        if one.process is None:
            continue
        name, swap = one.process.instance, one.process.swap
        known = before.get(name) or Cold(settings.after, swap)
        found[name] = _next(known, swap, one.process.rss + swap, one.active, elapsed or 0.0, settings)
    return found


def cold_wishes(known: Mapping[str, Cold], candidates: Iterable[Candidate]) -> dict[str, int]:
    """Bytes to send to swap of each idle VM that allows it: what rests, and no less than its minimum stays."""
    found = {}
    for one in candidates:
        process = one.domain.process
        if process is None or not one.may_swap or process.instance not in known:
            continue
        most = min(known[process.instance].left, process.rss - one.policy.minimum)
        if most > 0:
            found[one.uuid] = most
    return found


def _next(
    known: Cold, swap: int, used: int, active: ActiveMemory | None, elapsed: float, settings: ColdSettings
) -> Cold:
    back = known.back * exp(-elapsed / _MINUTE) + max(0, known.swap - swap)
    age, read_at = known.age, known.read_at
    left, since = max(0, known.left - max(0, swap - known.swap)), known.since + elapsed
    if back > used * settings.back_percent / 100:
        # what was read up to now is not gone by any more
        left, read_at = 0, None if active is None else active.at
        age = age if known.paused else _longer(age)
        return Cold(age, swap, back, read_at, left, since, paused=True)
    resting = None if active is None else _resting(active, age)
    if resting is not None and (read_at is None or resting[1] > read_at):
        left, read_at = resting
        return Cold(age, swap, back, read_at, left)
    return Cold(age, swap, back, read_at, left if since <= settings.valid else 0, since, known.paused)


def _resting(active: ActiveMemory, age: float) -> tuple[int, float] | None:
    """Bytes that have rested for so long, in doubt fewer, and when that was read; None where it was not."""
    found = next((one for one in active.idle if one.age >= age), None)
    return None if found is None else (max(0, found.bytes - active.error), found.at)


def _longer(age: float) -> float:
    return next((float(one) for one in AGES if one > age), age)
