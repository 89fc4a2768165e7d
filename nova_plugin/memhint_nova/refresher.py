"""The one background thread of a scheduler process: it keeps the snapshot, and no other asks the API.

Plain threading serves both of Nova's worlds: under eventlet Nova has patched it, and its sockets, into green ones.
"""

from __future__ import annotations

import logging
import os
import random
import threading
import time
from collections.abc import Callable, Mapping
from statistics import median_low
from typing import Any, Protocol

from memhint_nova.client import News
from memhint_nova.counts import Counts
from memhint_nova.errors import LookFailed
from memhint_nova.host import BadHost, Host, host
from memhint_nova.snapshot import Snapshot

LOG = logging.getLogger(__name__)

# Seconds, however often it failed: when the API is back, hosts count by nominal accounting until the next look.
LONGEST_PAUSE = 15.0
SHORTEST_PAUSE = 0.5  # seconds, however often hosts report: the least that the option takes, too


class Looks(Protocol):
    """What is asked."""

    def look(self, token: str | None) -> News | None:
        """See HostsClient."""


class Refresher:
    """Keeps a Snapshot. ``view`` may be called from any thread, and does no I/O."""

    def __init__(
        self,
        make_client: Callable[[], Looks],
        counts: Counts,
        interval: float,
        first_wait: float = 0.0,
        totals_interval: float = 600.0,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
        chance: Callable[[], float] = random.random,
    ) -> None:
        """:param make_client: called on the background thread, for it may ask Keystone."""
        self._make_client = make_client
        self._counts = counts
        self._interval = interval
        self._usual = interval  # seconds between two looks, by the hosts that the last answer told of
        self._warned: set[str] = set()
        self._first_wait = first_wait
        self._totals_interval = totals_interval
        self._clock = clock
        self._wall = wall
        self._chance = chance
        self._snapshot = Snapshot()
        self._lock = threading.Lock()
        self._pid: int | None = None
        self._stop = threading.Event()
        self._first = threading.Event()
        self._wait_until = 0.0

    def view(self) -> Snapshot:
        """The newest snapshot.

        Starts the thread, in each process that asks: Nova makes its filters before it forks its workers. Only while
        the first answer is under way does it wait, at most ``first_wait`` seconds after the start.
        """
        if self._pid != os.getpid():
            self._start()
        if not self._first.is_set():
            left = self._wait_until - self._clock()
            if left > 0:
                self._first.wait(left)
        return self._snapshot

    def stop(self) -> None:
        """End the thread, for tests: a scheduler just exits."""
        self._stop.set()

    def _start(self) -> None:
        with self._lock:
            if self._pid == os.getpid():
                return
            self._stop, self._first = threading.Event(), threading.Event()
            self._snapshot = Snapshot()
            self._usual = self._interval
            self._wait_until = self._clock() + self._first_wait
            threading.Thread(target=self._run, args=(self._stop,), name="memhint-snapshot", daemon=True).start()
            self._pid = os.getpid()

    def _run(self, stop: threading.Event) -> None:
        client: Looks | None = None
        failures = 0
        said = self._clock()
        while not stop.is_set():
            try:
                if client is None:
                    client = self._make_client()
                self.refresh(client)
            except LookFailed as error:
                failures += 1
                self._failed(str(error), failures)
            except Exception as error:
                failures += 1
                client = None
                LOG.exception("memhint: a look at the hosts failed in a way that it should not")
                self._failed(repr(error), failures)
            else:
                if failures:
                    LOG.info("memhint: the admin API answers again, after %d failed looks", failures)
                failures = 0
            self._first.set()
            if self._clock() - said >= self._totals_interval:
                said = self._clock()
                self._say_totals()
            stop.wait(self.pause(failures))

    def refresh(self, client: Looks) -> None:
        """One look. Raises LookFailed; the snapshot then stays as it was."""
        before = self._snapshot
        news = client.look(before.token)
        now = self._clock()
        if news is None:
            self._snapshot = before.without_news(now)
            self._counts.add({"looks.unchanged": 1})
        else:
            found, unread = self._read(news.hosts, now)
            self._snapshot = before.with_news(found, news.deleted, news.token, now, news.whole, unread)
            self._counts.add({"looks.whole" if news.whole else "looks.changes": 1})
        self._keep_up(now)

    def pause(self, failures: int) -> float:
        """Seconds to the next look.

        About the interval, or the period that half of the hosts report in at most; after each failure up to twice as
        long as before.
        """
        usual = self._usual
        longest = min(max(LONGEST_PAUSE, usual), usual * 2.0 ** min(failures, 10))
        return longest * (0.9 + 0.2 * self._chance() if not failures else 0.5 + 0.5 * self._chance())

    def _keep_up(self, now: float) -> None:
        """Look as often as hosts report, or what is known of them is too old for a part of the time.

        What half of the hosts do counts: a single one, which may say what it likes, makes nobody look more often.
        """
        self._usual = self._interval
        # Of a host that is silent, or whose clock is behind, no look brings anything that is of use.
        fresh = [one for one in self._snapshot.hosts.values() if one.expires >= now]
        if not fresh:
            return
        self._usual = min(self._interval, max(SHORTEST_PAUSE, median_low(one.period for one in fresh)))
        fastest = min(fresh, key=lambda one: one.period)
        if fastest.period < self._interval and fastest.name not in self._warned:
            self._warned.add(fastest.name)
            LOG.warning(
                "memhint: [memhint] interval of nova.conf is %g s, but host %s reports every %g s ([DEFAULT] period of "
                "its memhint.conf), and what is known of it may be too old before the next look: as half of the hosts "
                "report, looks are %g s apart from now on",
                self._interval,
                fastest.name,
                fastest.period,
                self._usual,
            )

    def _read(self, told: tuple[Mapping[str, Any], ...], now: float) -> tuple[list[Host], list[str]]:
        """The hosts, and the names of those that are not understood."""
        found, unread = [], []
        wall = self._wall()
        bad: list[str] = []
        for one in told:
            try:
                found.append(host(one, wall, now))
            except BadHost as error:
                name = one.get("name")
                bad.append(f"{str(name)[:64]!r}: {error}")
                if isinstance(name, str):
                    unread.append(name)
        if bad:
            self._counts.add({"looks.bad_host": len(bad)})
            LOG.warning(
                "memhint: %d of %d hosts are not understood and count by nominal accounting, such as %s",
                len(bad),
                len(told),
                bad[0],
            )
        return found, unread

    def _failed(self, why: str, failures: int) -> None:
        self._counts.add({"looks.failed": 1})
        # One line when it begins and one each time it has doubled.
        if failures & (failures - 1) == 0:
            LOG.warning(
                "memhint: look %d in a row at the admin API failed: %s. Hosts count by nominal accounting once "
                "what is known of them is too old",
                failures,
                why,
            )

    def _say_totals(self) -> None:
        snapshot = self._snapshot
        LOG.info(
            "memhint: since the start of this process: %s; %d hosts are known",
            ", ".join(f"{name} {count}" for name, count in sorted(self._counts.all().items())) or "nothing",
            len(snapshot.hosts),
        )
