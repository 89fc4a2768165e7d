"""Writes the synthetic fleet into a store, as controllers would that have heard of it all day."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice

from lab.fleet.fleet import Fleet, refusals
from memhint.objects.event import Event
from memhint.objects.history import point_of
from memhint.objects.report import Report
from memhint.store import Store
from memhint.store.fleet import HostRecord, State

BATCH = 100  # messages in one transaction, as [controller] batch has it
PAST_STEP = 300.0  # seconds between two points of the hosts' history


def fill(store: Store, fleet: Fleet, now: float, *, past: float = 0.0) -> None:
    """Everything that is known at ``now`` (unix seconds), with ``past`` seconds of the hosts' history.

    :raises StoreError: when the database fails
    """
    steps = [now - past + number * PAST_STEP for number in range(int(past // PAST_STEP))]
    for number in range(fleet.shape.hosts):
        name = fleet.name(number)
        points = tuple(point_of(fleet.report(number, at)) for at in steps)
        newest = fleet.report(number, now)
        events = {
            (one.lever, one.subject): Event(newest.at, name, one.subject, one.lever, one.desired, one.verdict)
            for one in refusals(newest)
        }
        store.fleet.take([], [HostRecord(name, points, tuple(events.values()), 0)])
    stale = [number for number in range(fleet.shape.hosts) if fleet.stale(number)]
    # A host is as old as its newest report was under way longer than the fastest one: so there was a fast one.
    before = [replace(fleet.report(number, now - fleet.shape.period), domains=()) for number in stale]
    store.fleet.take([State(one, fleet.clock(now)) for one in before])
    keep(store, fleet, fleet.reports(now), now)
    store.fleet.sweep()


def keep(store: Store, fleet: Fleet, reports: Iterator[Report], now: float) -> None:
    """Keep reports as the states that they are, an old one as if it had waited for a database."""
    period = fleet.shape.period

    def state(one: Report) -> State:
        return State(one, fleet.clock(one.at + period / 2), held=max(0.0, now - one.at - period))

    while batch := [state(one) for one in islice(reports, BATCH)]:
        store.fleet.take(batch)


def follow(store: Store, fleet: Fleet, stopped: Callable[[], bool], wall: Callable[[], float] = time.time) -> None:
    """Keep the fleet up to date, a report of each host in each period, spread over it, until stopped."""
    shape = fleet.shape
    alive = [number for number in range(shape.hosts) if not fleet.stale(number)]
    ticks = max(1, min(int(shape.period), len(alive)))
    tick = 0
    while not stopped():
        began = time.monotonic()
        now = wall()
        keep(store, fleet, (fleet.report(number, now) for number in alive[tick % ticks :: ticks]), now)
        if tick % 5 == 0:
            store.fleet.sweep()
        tick += 1
        time.sleep(max(0.0, shape.period / ticks - (time.monotonic() - began)))
