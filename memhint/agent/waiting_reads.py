"""Reads that may wait for a process's mmap lock, on threads of their own: what they brought last is kept.

Whoever changes many mappings holds that lock: QEMU that separates a large VM's merged pages for minutes, and memory is
consumed fastest meanwhile. The cycle waits a moment, and goes on with what is known.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

LOG = logging.getLogger(__name__)
K = TypeVar("K", bound=Hashable)
T = TypeVar("T")

WAIT = 0.2  # seconds of a cycle: one takes some 40 us, and those of a large host some ms
_FIRST = 10  # times that for one of which nothing is known: its VM counts as not observed, its memory as other work's
AT_ONCE = 4  # threads: memhint has one VM separated at a time, so more hang only where others do such things, too
_STEPS = 4  # of that wait: when nothing came in one of them, another thread goes on with the others


@dataclass(frozen=True, slots=True)
class Newest(Generic[T]):
    """What the last read brought. ``fresh`` is whether it is of this turn."""

    value: T
    fresh: bool


class WaitingReads(Generic[K, T]):
    """The newest value per key. Threads end when nothing is left to read; there are ``AT_ONCE`` at most.

    A read that hangs is left behind with its thread, and is waited for in one turn only.
    """

    def __init__(self, wait: float = WAIT) -> None:
        """:param wait: seconds that a turn takes at most, where something is known of all that is wanted"""
        self._wait = wait
        self._changed = threading.Condition()
        self._turn = 0
        self._wanted: frozenset[K] = frozenset()
        self._queue: dict[K, Callable[[], T]] = {}  # in the order in which they are read
        self._reading: set[K] = set()
        self._threads = 0
        self._ended = 0  # reads, so far
        self._newest: dict[K, tuple[int, T]] = {}

    def read(self, wanted: Mapping[K, Callable[[], T]]) -> dict[K, Newest[T]]:
        """Read all of these, and say what is known when the time is up. All others are forgotten."""
        with self._changed:
            late = self._reading | self._queue.keys()
            self._turn += 1
            self._wanted = frozenset(wanted)
            self._newest = {key: found for key, found in self._newest.items() if key in wanted}
            # Those that had no turn yet come first. Of one that is being read nothing more is asked.
            order = [key for key in (*self._queue, *wanted) if key in wanted and key not in self._reading]
            self._queue = {key: wanted[key] for key in order}
            self._begin()
            self._await(self._queue.keys() - late)
            return {key: Newest(value, turn == self._turn) for key, (turn, value) in self._newest.items()}

    def _await(self, asked: set[K]) -> None:
        began = time.monotonic()
        while left := asked & (self._queue.keys() | self._reading):
            wait, ended = self._wait * (1 if left <= self._newest.keys() else _FIRST), self._ended
            if time.monotonic() - began >= wait:
                return
            self._changed.wait(self._wait / _STEPS)
            if self._ended == ended:
                self._begin()

    def _begin(self) -> None:
        if not self._queue or self._threads >= AT_ONCE:
            return
        try:
            # A daemon: a read that never returns must not keep the agent from ending.
            threading.Thread(target=self._run, name="waiting-reads", daemon=True).start()
        except RuntimeError as error:
            LOG.warning("what was known last goes on: %s", error)  # no host has threads without end
            return
        self._threads += 1

    def _run(self) -> None:
        while True:
            with self._changed:
                if not self._queue:
                    self._threads -= 1
                    return
                key = next(iter(self._queue))
                work, turn = self._queue.pop(key), self._turn
                self._reading.add(key)
            try:
                found = (turn, work())
            except Exception:  # a defect here must not end the reading for good
                LOG.exception("reading %s failed", key)
                found = None
            with self._changed:
                self._reading.discard(key)
                self._ended += 1
                if found is not None and key in self._wanted:
                    self._newest[key] = found
                if not self._queue:  # not for each: the cycle has nothing to do with one of many
                    self._changed.notify_all()
