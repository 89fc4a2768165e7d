"""What the store says of the fleet, asked for once in a while: who scrapes more often is told the same again."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from memhint.api.metrics.domains import Domains, largest
from memhint.api.metrics.hosts import Hosts
from memhint.store.errors import StoreError

if TYPE_CHECKING:
    from memhint.store.database import Store

DAY = 86400.0  # seconds


@dataclass(frozen=True, slots=True)
class Figures:
    """Families of hosts and VMs, as they were ``at`` (unix seconds); ``error`` and none where the store failed."""

    at: float
    families: tuple[Hosts | Domains, ...] = ()
    error: StoreError | None = None


class FleetFigures:
    """One per application, for any number of threads: one of them asks, the others take what there is."""

    def __init__(
        self, store: Store, most: int, every: float, clock: Callable[[], float], failed: Callable[[StoreError], None]
    ) -> None:
        """:param most: VMs that are told of
        :param every: seconds, at least, from one look to the next, one that failed included
        :param clock: unix seconds
        :param failed: told of each look that failed
        """
        self._store = store
        self._most = most
        self._every = every
        self._clock = clock
        self._failed = failed
        self._asking = threading.Lock()
        self._newest: Figures | None = None

    def now(self) -> Figures:
        """The newest. They are older than ``every`` only while another thread waits for the store."""
        found = self._fresh()
        if found is not None:
            return found
        old = self._newest
        if not self._asking.acquire(blocking=old is None):
            assert old is not None
            return old
        try:
            found = self._fresh()  # another thread may just have asked
            if found is None:
                found = self._newest = self._ask()
            return found
        finally:
            self._asking.release()

    def _fresh(self) -> Figures | None:
        found = self._newest
        # A clock that was set back makes them no fresher.
        return found if found is not None and 0.0 <= self._clock() - found.at < self._every else None

    def _ask(self) -> Figures:
        at = self._clock()
        try:
            hosts = self._store.hosts_view.all()
            promises = self._store.promises.since(at - DAY)
            domains = largest(self._store.domains, self._most)
        except StoreError as error:
            self._failed(error)
            return Figures(at, error=error)
        left_out = max(0, sum(one.domains for one in hosts) - len(domains))
        return Figures(at, (Hosts(hosts, promises), Domains(domains, left_out)))
