"""QEMU's counters of reported memory, read through its monitor on a thread of its own.

A monitor answers in milliseconds, or not at all while its QEMU stands still: the cycle never waits for one.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from memhint.backoff import Backoff
from memhint.objects.discarded import BALLOON_REPORTING, BalloonReporting
from memhint.objects.gap import Gap
from memhint.virt.errors import MonitorCommandUnknown, VirtError

LOG = logging.getLogger(__name__)


class CounterMonitor(Protocol):
    """A domain's monitor, as far as it is needed here."""

    def balloon_reporting(self, at: float) -> BalloonReporting:
        """The counters."""


@dataclass(frozen=True, slots=True)
class Counted:
    """What is known of one QEMU process: its newest counters, and why the last try gave none."""

    instance: str
    reading: BalloonReporting | None = None
    gap: Gap | None = None
    tried: float = float("-inf")
    failures: int = 0
    unsupported: bool = False  # this QEMU will never have them: it is not asked again


class BalloonReads:
    """Newest counters per VM."""

    def __init__(
        self,
        monitor: Callable[[str], CounterMonitor],
        interval: float,
        max_age: float,
        wall: Callable[[], float] = time.time,
    ) -> None:
        """:param monitor: gives the monitor of a domain's UUID
        :param interval: seconds between two readings of one VM
        :param max_age: seconds after which a reading is shown no longer
        """
        self._monitor = monitor
        self._interval = interval
        self._max_age = max_age
        self._backoff = Backoff(interval, max(interval, 300.0))
        self._wall = wall
        self._lock = threading.Lock()
        self._known: dict[str, Counted] = {}
        self._stop = threading.Event()

    def start(self) -> None:
        """Begin to read in the background."""
        threading.Thread(target=self._run, name="balloon-reads", daemon=True).start()

    def close(self) -> None:
        """Stop; a call under way is not waited for."""
        self._stop.set()

    def inherit(self, before: BalloonReads) -> None:
        """Go on from what an earlier one of this process has read: what is not known of a recycler sets it back."""
        with before._lock:
            self._known = dict(before._known)

    def want(self, instances: Mapping[str, str]) -> None:
        """The QEMU processes that run now with a balloon that can report, by domain UUID."""
        with self._lock:
            known = self._known
            self._known = {
                uuid: known[uuid] if uuid in known and known[uuid].instance == instance else Counted(instance)
                for uuid, instance in instances.items()
            }

    def newest(self, uuid: str) -> tuple[BalloonReporting | None, Gap | None]:
        """The newest counters of this VM's present process, and what stands in the way of newer ones."""
        with self._lock:
            found = self._known.get(uuid)
        if found is None:
            return None, None
        reading = found.reading
        if reading is not None and abs(self._wall() - reading.at) > self._max_age:  # the clock may have been set back
            reading = None
        return reading, found.gap

    def read_next(self, now: float) -> float:
        """Read the VM that has waited longest, if one is due, and say how many seconds to rest."""
        with self._lock:
            due = {uuid: self._due(one) for uuid, one in self._known.items() if not one.unsupported}
        if not due:
            return min(1.0, self._interval)
        uuid = min(due, key=lambda one: due[one])
        if due[uuid] > now:
            return min(1.0, self._interval, due[uuid] - now)
        with self._lock:
            before = self._known.get(uuid)
        if before is not None:
            after = self._read(uuid, replace(before, tried=now))
            with self._lock:
                current = self._known.get(uuid)
                if current is not None and current.instance == after.instance:
                    self._known[uuid] = after
        return 0.0

    def _due(self, one: Counted) -> float:
        return one.tried + max(self._interval, self._backoff.pause_s(one.failures))

    def _read(self, uuid: str, known: Counted) -> Counted:
        try:
            reading = self._monitor(uuid).balloon_reporting(self._wall())
        except MonitorCommandUnknown as error:
            return replace(known, reading=None, gap=error.gap(BALLOON_REPORTING), unsupported=True)
        except VirtError as error:
            LOG.debug("counters of %s: %s", uuid, error)
            return replace(known, gap=error.gap(BALLOON_REPORTING), failures=known.failures + 1)
        return replace(known, reading=reading, gap=None, failures=0)

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                rest = self.read_next(time.monotonic())
            except Exception:  # a defect here must not end the reading for good
                LOG.exception("reading QEMU's counters failed")
                rest = self._interval
            self._stop.wait(rest)
