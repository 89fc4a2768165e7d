"""Idle guests that allocate again, one after another and several times each."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field

from bench import ksm
from bench.cpu import cpu_seconds
from bench.filled_host import Setup, Sizes, add_used, agent_of, host_of, settle
from bench.harness.bench import Say


@dataclass(frozen=True, slots=True)
class Shape:
    """How many guests lie idle beside each other, how many of them allocate, how often each does, and how often all
    of it is set up again."""

    guests: int
    waking: int
    rounds: int
    turns: int


def in_turns(setups: Sequence[Setup], turns: int) -> Iterator[Setup]:
    """Each setup once a turn, every other turn backwards: what drifts on the machine meets all of them alike."""
    for number in range(turns):
        yield from setups if number % 2 == 0 else reversed(setups)


@dataclass(slots=True)
class Woken:
    """One guest's next allocations: seconds of its QEMU's CPU, and seconds that it waited."""

    cpu: list[float] = field(default_factory=list)
    wall: list[float] = field(default_factory=list)


def next_allocations(setup: Setup, sizes: Sizes, shape: Shape, say: Say) -> list[Woken]:
    """Guests that each used ``sizes.work`` once and freed it do so again. One element for each that allocates.

    Raises PreconditionFailed where the budget is not enforced.
    """
    with host_of(setup, sizes) as host:
        merging = ksm.scanning(setup.ksm) if setup.ksm is not None else nullcontext()
        with merging, agent_of(host, setup):
            for _ in range(shape.guests):
                add_used(host, setup, sizes)
            settle(host, sizes, thorough=True)
            woken = [Woken() for _ in range(shape.waking)]
            for number in range(shape.rounds):
                for guest, found in zip(host.guests, woken, strict=False):
                    cpu, began = cpu_seconds(guest.pid()), time.monotonic()
                    guest.alloc("again", sizes.work)
                    found.wall.append(time.monotonic() - began)
                    found.cpu.append(cpu_seconds(guest.pid()) - cpu)
                    guest.free("again")
                    settle(host, sizes, thorough=False)
                taken = statistics.median(one.cpu[-1] for one in woken)
                say(f"{setup.name}: round {number + 1} of {shape.rounds}, {taken:.2f} s of CPU each")
            return woken


def usual(woken: Sequence[Woken]) -> float:
    """Seconds of CPU that the middle one of these guests takes."""
    return statistics.median(statistics.median(one.cpu) for one in woken)


def slowest(woken: Sequence[Woken]) -> float:
    """Seconds of CPU that the slowest of these guests takes, each in the middle of its own rounds."""
    return max(statistics.median(one.cpu) for one in woken)
