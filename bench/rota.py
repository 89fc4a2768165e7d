"""Guests that work now and then: each fills memory and frees it once in a period, at a time of its own."""

from __future__ import annotations

import heapq
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from bench.cpu import thread_seconds
from lab import Guest
from lab.errors import LabError

VIRTUAL_CPU = "CPU "  # how the names of QEMU's threads begin that are the guest's processors
AGAIN = 0.5  # seconds from one look whether a cycle has ended to the next
LATE = 1.5  # times as long as its files take: a cycle that is not through by then waits for the host
GOLDEN = 0.618034  # the fractions of its multiples are spread evenly, however many of them there are


@dataclass(frozen=True, slots=True)
class Cycle:
    """What a guest does in each period: `files` of `size` bytes come one after the other, and go again."""

    period: float  # seconds
    files: int
    size: int  # bytes of a file, whole MiB
    step: float  # seconds from one file to the next

    @property
    def peak(self) -> int:
        """Bytes that all files have."""
        return self.files * self.size

    @property
    def average(self) -> float:
        """Bytes that a guest holds on average over a period."""
        return self.peak * self.files * self.step / self.period

    @property
    def busy(self) -> float:
        """Seconds of a period in which it does something."""
        return 2 * self.files * self.step

    def begin(self, number: int) -> float:
        """When in a period the guest of this number begins, in seconds; two arms have the same."""
        return (number * GOLDEN) % 1.0 * (self.period - self.busy)


@dataclass(frozen=True, slots=True)
class Done:
    """One cycle that ended. ``peak`` is less than was asked for where the guest had no room.

    ``cpu`` is what the guest's processors took of the host from the beginning of the cycle to the look that saw its
    end: what they executed, and their faults in the host. What a guest says of itself would be by its own clock, which
    goes on while it waits for a core.
    """

    guest: str
    cpu: float  # seconds
    wall: float
    peak: int


@dataclass(frozen=True, slots=True, order=True)
class _Due:
    """A guest's next turn: to begin, or, where it has begun, to be looked at whether it has ended."""

    at: float
    number: int
    began_with: float | None = field(default=None, compare=False)  # seconds that its processors had taken by then
    guest: Guest = field(compare=False, kw_only=True)


class Rota:
    """Has guests begin their cycles. One thread of it serves all, as a cycle goes on in the guest by itself."""

    def __init__(self, cycle: Cycle) -> None:
        self._cycle = cycle
        self._began = time.monotonic()
        self._change = threading.Condition()
        self._due: list[_Due] = []
        self._numbers = 0
        self._ended = False
        self._done: list[Done] = []
        self._missed = 0
        self._begun: dict[int, float] = {}  # when the cycle began that a guest, by its number, is at
        self._thread = threading.Thread(target=self._run, name="rota", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """Begin no more cycles."""
        with self._change:
            self._ended = True
            self._change.notify()
        self._thread.join()

    def add(self, guest: Guest, *, at_once: bool) -> None:
        """One more guest, which works at its time; `at_once`: and now."""
        with self._change:
            at = time.monotonic() if at_once else self._next(self._numbers, 0.0)
            heapq.heappush(self._due, _Due(at, self._numbers, guest=guest))
            self._numbers += 1
            self._change.notify()

    def remove(self, guest: Guest) -> None:
        """Ask this one for nothing more."""
        with self._change:
            for number in {one.number for one in self._due if one.guest is guest}:
                self._begun.pop(number, None)
            self._due = [one for one in self._due if one.guest is not guest]
            heapq.heapify(self._due)

    def taken(self) -> tuple[list[Done], int]:
        """The cycles that ended since the last call, and how many could not begin: the guest was still at its last."""
        with self._change:
            found, self._done = self._done, []
            missed, self._missed = self._missed, 0
        return found, missed

    def late(self) -> int:
        """How many guests take longer for the cycle that they are at than on a host that keeps up with them."""
        latest = time.monotonic() - LATE * self._cycle.busy
        with self._change:
            return sum(begun < latest for begun in self._begun.values())

    def _run(self) -> None:
        while True:
            with self._change:
                while not self._ended and not (self._due and self._due[0].at <= time.monotonic()):
                    self._change.wait(self._due[0].at - time.monotonic() if self._due else None)
                if self._ended:
                    return
                one = heapq.heappop(self._due)
                if one.began_with is None:
                    at = self._next(one.number, self._cycle.period / 2)
                    heapq.heappush(self._due, _Due(at, one.number, guest=one.guest))
            if one.began_with is None:
                self._begin(one)
            else:
                self._look(one, one.began_with)

    def _next(self, number: int, rest: float) -> float:
        """The next time of this guest that is so many seconds away at least."""
        at, now = self._began + self._cycle.begin(number), time.monotonic()
        while at < now + rest:
            at += self._cycle.period
        return at

    def _begin(self, one: _Due) -> None:
        try:
            began_with = _spent(one.guest)
            one.guest.duty(self._cycle.files, self._cycle.size, round(1000 * self._cycle.step))
        except (LabError, OSError):
            # Still at its last one, or gone: either is counted, and looked at where guests are added and removed.
            with self._change:
                self._missed += 1
            return
        with self._change:
            self._begun[one.number] = time.monotonic()
        self._look_at(time.monotonic() + self._cycle.busy, one, began_with)

    def _look(self, one: _Due, began_with: float) -> None:
        try:
            last, spent = one.guest.duty_done(), _spent(one.guest) - began_with
        except (LabError, OSError):
            with self._change:
                self._begun.pop(one.number, None)
            return  # it is gone
        if last["running"]:
            self._look_at(time.monotonic() + AGAIN, one, began_with)
            return
        with self._change:
            self._begun.pop(one.number, None)
            self._done.append(Done(one.guest.name, spent, last["wall_ms"] / 1e3, last["peak"]))

    def _look_at(self, at: float, one: _Due, began_with: float) -> None:
        with self._change:
            heapq.heappush(self._due, _Due(at, one.number, began_with, guest=one.guest))


def _spent(guest: Guest) -> float:
    return thread_seconds(Path(f"/proc/{guest.pid()}"), VIRTUAL_CPU)


@contextmanager
def working(cycle: Cycle) -> Iterator[Rota]:
    """A rota that ends with the body."""
    rota = Rota(cycle)
    rota.start()
    try:
        yield rota
    finally:
        rota.stop()
