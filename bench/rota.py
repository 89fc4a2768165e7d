"""Guests that work now and then: each fills memory and frees it once in a period, at a time of its own."""

from __future__ import annotations

import heapq
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from lab import Guest
from lab.errors import LabError

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
    """One cycle that ended. ``peak`` is less than was asked for where the guest had no room."""

    guest: str
    cpu: float  # seconds of the guest's CPU
    wall: float
    peak: int


class Rota:
    """Has guests begin their cycles. One thread of it serves all, as a cycle goes on in the guest by itself."""

    def __init__(self, cycle: Cycle) -> None:
        self._cycle = cycle
        self._began = time.monotonic()
        self._change = threading.Condition()
        self._due: list[tuple[float, int, Guest]] = []
        self._numbers = 0
        self._ended = False
        self._done: list[Done] = []
        self._missed = 0
        self._seen: dict[str, int] = {}
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
            due = time.monotonic() if at_once else self._next(self._numbers, 0.0)
            heapq.heappush(self._due, (due, self._numbers, guest))
            self._numbers += 1
            self._change.notify()

    def remove(self, guest: Guest) -> None:
        """Ask this one for nothing more."""
        with self._change:
            self._due = [entry for entry in self._due if entry[2] is not guest]
            heapq.heapify(self._due)

    def taken(self) -> tuple[list[Done], int]:
        """The cycles that ended since the last call, and how many could not begin: the guest was still at its last."""
        with self._change:
            guests = [guest for _, _, guest in self._due]
        for guest in guests:
            with suppress(LabError):  # one that is gone
                self._look(guest)
        with self._change:
            found, self._done = self._done, []
            missed, self._missed = self._missed, 0
        return found, missed

    def _run(self) -> None:
        while True:
            with self._change:
                while not self._ended and not (self._due and self._due[0][0] <= time.monotonic()):
                    self._change.wait(self._due[0][0] - time.monotonic() if self._due else None)
                if self._ended:
                    return
                _, number, guest = heapq.heappop(self._due)
                heapq.heappush(self._due, (self._next(number, self._cycle.period / 2), number, guest))
            self._begin(guest)

    def _next(self, number: int, rest: float) -> float:
        """The next time of this guest that is so many seconds away at least."""
        at, now = self._began + self._cycle.begin(number), time.monotonic()
        while at < now + rest:
            at += self._cycle.period
        return at

    def _begin(self, guest: Guest) -> None:
        try:
            self._look(guest)
            guest.duty(self._cycle.files, self._cycle.size, round(1000 * self._cycle.step))
        except LabError:
            # Still at its last one, or gone: either is counted, and looked at where guests are added and removed.
            with self._change:
                self._missed += 1

    def _look(self, guest: Guest) -> None:
        last = guest.duty_done()
        with self._change:
            if last["cycles"] != self._seen.get(guest.name, 0):
                self._seen[guest.name] = last["cycles"]
                self._done.append(Done(guest.name, last["cpu_us"] / 1e6, last["wall_ms"] / 1e3, last["peak"]))


@contextmanager
def working(cycle: Cycle) -> Iterator[Rota]:
    """A rota that ends with the body."""
    rota = Rota(cycle)
    rota.start()
    try:
        yield rota
    finally:
        rota.stop()
