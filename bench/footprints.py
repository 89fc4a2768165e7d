"""Footprints over time, without any guest: memory times time, phases, and what a run comes to."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from memhint.objects.units import GIB

PHASES = ("build", "built", "clean", "cleaned", "drop", "idle")
"""What a guest says, in this order: what it begins with."""
WORKING = ("build", "clean")
"""Those in which the guest has work to do."""
FAILED = "failed"
TICK = 0.01
"""Seconds that CPU time is counted in: less may show as none."""

_TOLD = re.compile(r"(?:\[ *\d+\.\d+\] )?phase (\w+)")

Samples = Sequence[tuple[float, float]]
"""(seconds, bytes), ascending in time."""


def told(console: str) -> list[str]:
    """The phases that a guest's console shows so far, as the kernel's log has them. What else is there is not one."""
    # What follows the last line's end is still being written.
    lines = console.replace("\r", "").split("\n")[:-1]
    return [found[1] for line in lines if (found := _TOLD.fullmatch(line)) and found[1] in (*PHASES, FAILED)]


def at(samples: Samples, when: float) -> float:
    """Bytes at that moment, between the two samples around it. Raises ValueError where there are none around it."""
    before = None
    for moment, size in samples:
        if moment == when:
            return size
        if moment > when:
            if before is None:
                break
            share = (when - before[0]) / (moment - before[0])
            return before[1] + share * (size - before[1])
        before = moment, size
    raise ValueError(f"nothing was measured around {when:g} s")


def gib_minutes(samples: Samples, begin: float, end: float) -> float:
    """Memory times time between two moments, in GiB x minutes: trapezoids between samples.

    Raises ValueError where the samples do not reach from one to the other.
    """
    if end < begin:
        raise ValueError(f"{end:g} s is before {begin:g} s")
    inside = [
        (begin, at(samples, begin)),
        *((moment, size) for moment, size in samples if begin < moment < end),
        (end, at(samples, end)),
    ]
    area = sum((later - earlier) * (one + other) / 2 for (earlier, one), (later, other) in pairwise(inside))
    return area / GIB / 60


@dataclass(frozen=True, slots=True)
class Track:
    """One run: resident bytes over the seconds since the build began, and when each phase did.

    `instructions` are those the guest had executed at each phase's beginning, `cpu` the seconds of CPU that QEMU had
    taken.
    """

    samples: Samples
    began: Mapping[str, float]
    instructions: Mapping[str, int]
    cpu: Mapping[str, float]

    @property
    def build_seconds(self) -> float:
        """How long the build took."""
        return self.began["built"] - self.began["build"]

    @property
    def build_instructions(self) -> int:
        """What the guest executed meanwhile, its kernel and its idling included."""
        return self.instructions["built"] - self.instructions["build"]

    @property
    def build_cpu(self) -> float:
        """Seconds of CPU that QEMU took meanwhile."""
        return self.cpu["built"] - self.cpu["build"]

    @property
    def rate(self) -> float:
        """Instructions of the build per second of QEMU's CPU."""
        return self.build_instructions / max(self.build_cpu, TICK)

    def paced(self, rate: float) -> Track:
        """The same by the clock of a guest that has a core for itself and executes `rate` instructions a second on it.

        That clock goes while the guest works (it builds, or cleans): what others take of the machine makes a build no
        dearer, and more instructions do. While it rests a second is a second.
        """
        edges, clock = [0.0], [0.0]
        for phase, following in pairwise(PHASES):
            lasted = self.began[following] - self.began[phase]
            edges.append(self.began[following])
            busy = (self.instructions[following] - self.instructions[phase]) / rate
            clock.append(clock[-1] + (busy if phase in WORKING else lasted))

        def by_clock(when: float) -> float:
            number = max(at for at, edge in enumerate(edges) if edge <= when)
            if number == len(edges) - 1:
                return clock[-1] + when - edges[-1]
            width = edges[number + 1] - edges[number]
            return (
                clock[number] + (when - edges[number]) / width * (clock[number + 1] - clock[number]) if width else 0.0
            )

        return Track(
            tuple((by_clock(when), size) for when, size in self.samples),
            {phase: by_clock(when) for phase, when in self.began.items()},
            self.instructions,
            self.cpu,
        )

    @property
    def end(self) -> float:
        """When the last sample was taken."""
        return self.samples[-1][0]

    def mean(self, begin: str, end: str) -> float:
        """Mean resident bytes between the beginnings of two phases."""
        first, last = self.began[begin], self.began[end]
        return gib_minutes(self.samples, first, last) * GIB * 60 / (last - first)

    @property
    def peak(self) -> float:
        """The most there was at a sample."""
        return max(size for _, size in self.samples)
