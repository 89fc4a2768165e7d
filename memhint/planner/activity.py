"""Which VMs are idle, which came to rest, and what VMs that go to and fro keep of their tuning. By QEMU process."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from memhint.objects.domain import DomainObservation
from memhint.objects.tuning import Tuning
from memhint.objects.units import MIB
from memhint.planner.settings import LadderSettings

NEVER_IDLE = 1e9
"""Seconds for which a VM counts as busy until it is seen idle. Finite: it is stored, and JSON has no infinity."""
GIVEN_BACK = 16 * MIB  # less than this a guest gives back by itself, idle as it is


def next_idle(
    idle: frozenset[str],
    before: Mapping[str, int],
    footprint: Mapping[str, int],
    elapsed: float | None,
    settings: LadderSettings,
) -> frozenset[str]:
    """The QEMU processes that are idle: they hardly grow. What was not there before is not.

    :param before: footprint by process a cycle ago, bytes
    :param elapsed: seconds since then
    """
    if not elapsed:
        return frozenset(name for name in idle if name in footprint)
    found = set()
    for name, use in footprint.items():
        if name not in before:
            continue
        growth = (use - before[name]) / elapsed
        if growth <= settings.idle_growth or (name in idle and growth <= settings.busy_growth):
            found.add(name)
    return frozenset(found)


def next_busy(
    busy: Mapping[str, float],
    was_idle: frozenset[str],
    idle: frozenset[str],
    footprint: Mapping[str, int],
    elapsed: float | None,
) -> dict[str, float]:
    """The QEMU processes that are not idle, and for how many seconds; NEVER_IDLE those never seen idle."""
    since = elapsed or 0.0
    return {
        name: (0.0 if name in was_idle else busy.get(name, NEVER_IDLE)) + since
        for name in footprint
        if name not in idle
    }


def next_rest(
    tops: Mapping[str, int],
    before: Mapping[str, int],
    footprint: Mapping[str, int],
    idle: frozenset[str],
    elapsed: float | None,
    settings: LadderSettings,
) -> tuple[dict[str, int], frozenset[str]]:
    """The processes that just came to rest after their VM gave memory back, and the tops to hand to the next look.

    A process has come to rest if it is idle, hardly shrinks any more, and is smaller than its top: its largest
    footprint since the last rest, in bytes. A VM that keeps what it took has not come to rest. "Hardly" is no more than
    an idle process may grow, and no more than GIVEN_BACK: large free blocks go back fast, then small ones slowly.

    :param before: footprint by process a cycle ago, bytes
    :param elapsed: seconds since then
    """
    found, rested = {}, set()
    for name, use in footprint.items():
        top = max(tops.get(name, use), use)
        still = name in before and before[name] - use <= min(GIVEN_BACK, settings.busy_growth * (elapsed or 0.0))
        if name in idle and still and top - use >= GIVEN_BACK:
            rested.add(name)
            top = use
        found[name] = top
    return found, frozenset(rested)


def keep_tuning(
    before: Mapping[str, Tuning],
    domains: Iterable[DomainObservation],
    busy: Mapping[str, float],
    rested: frozenset[str],
    settings: LadderSettings,
) -> dict[str, Tuning]:
    """Of the tuning asked for before, what VMs keep that are idle, or busy for a moment only.

    A guest's own settings cost it calls to its agent to get back, in the middle of its burst, and again to lose after
    it; a few passes of reporting sooner or finer cost it less. One that came to rest is called once.

    :param busy: QEMU processes, and for how many seconds each has been busy; from `next_busy`
    :param rested: those that just came to rest; from `next_rest`
    """
    kept = {}
    for one in domains:
        if one.uuid not in before or one.process is None:
            continue
        name, tuning = one.process.instance, before[one.uuid]
        if name not in busy or busy[name] < settings.busy_for:
            kept[one.uuid] = replace(tuning, rests=tuning.rests + (name in rested))
    return kept
